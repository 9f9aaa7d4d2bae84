<?php
use Guestbook\Picture;
use function Guestbook\{h, hue, initial, when};

$field = static fn (string $name): string => isset($errors[$name])
    ? ' aria-invalid="true" aria-describedby="' . $name . '-error"' : '';
$error = static fn (string $name): string => isset($errors[$name])
    ? '<p class="error" id="' . $name . '-error">' . h($errors[$name]) . '</p>' : '';
?>
<?php if ($flash !== null): ?>
<p class="notice" role="status"><?= h($flash) ?></p>
<?php endif ?>
<?php if ($errors): ?>
<p class="notice bad" role="alert">Not stored yet: please look at the form once more.</p>
<?php endif ?>
<div class="columns">
<section class="sign">
  <h1>Leave a few words</h1>
  <p class="lead">Say hello, tell us where you are from, or leave a picture.</p>
  <form method="post" action="/" enctype="multipart/form-data">
    <input type="hidden" name="token" value="<?= h($token) ?>">
    <label for="name">Your name</label>
    <input id="name" name="name" maxlength="60" autocomplete="name" required value="<?= h($name ?? '') ?>"<?= $field('name') ?>>
    <?= $error('name') ?>

    <label for="message">Message</label>
    <textarea id="message" name="message" rows="5" maxlength="2000" required<?= $field('message') ?>>
<?= h($message ?? '') ?></textarea>
    <?= $error('message') ?>

    <label for="picture">Picture <span class="hint">optional; JPEG, PNG, GIF or WebP, up to 2 MB</span></label>
    <input type="hidden" name="MAX_FILE_SIZE" value="<?= Picture::MAX_BYTES ?>">
    <input id="picture" name="picture" type="file" accept="image/jpeg,image/png,image/gif,image/webp"<?= $field('picture') ?>>
    <?= $error('picture') ?>

    <button>Sign the book</button>
  </form>
</section>
<section class="entries" aria-label="Entries">
<?php if (!$entries): ?>
  <div class="empty">
    <p class="big">The first page is still white.</p>
    <p>Nobody has signed yet. It could be you.</p>
  </div>
<?php else: ?>
  <h2><?= $total === 1 ? 'One entry' : number_format($total) . ' entries' ?></h2>
<?php foreach ($entries as $entry): ?>
  <article class="card">
    <span class="avatar <?= hue($entry['name']) ?>" aria-hidden="true"><?= h(initial($entry['name'])) ?></span>
    <div>
      <p class="who"><strong><?= h($entry['name']) ?></strong>
        <a href="/entry/<?= $entry['id'] ?>"><time datetime="<?= gmdate(DATE_ATOM, $entry['created_at']) ?>"><?= when($entry['created_at']) ?></time></a></p>
      <p class="text"><?= h($entry['message']) ?></p>
<?php if ($entry['picture'] !== null): ?>
      <a class="thumb" href="/entry/<?= $entry['id'] ?>"><img src="/picture/<?= $entry['id'] ?>" width="<?= $entry['picture_width'] ?>" height="<?= $entry['picture_height'] ?>" loading="lazy" alt="Picture by <?= h($entry['name']) ?>"></a>
<?php endif ?>
    </div>
  </article>
<?php endforeach ?>
<?php if ($pages > 1): ?>
  <nav class="pages" aria-label="Pages">
    <?= $page > 1 ? '<a rel="prev" href="/' . ($page > 2 ? '?page=' . ($page - 1) : '') . '">← Newer</a>' : '<span></span>' ?>
    <span>Page <?= $page ?> of <?= $pages ?></span>
    <?= $page < $pages ? '<a rel="next" href="/?page=' . ($page + 1) . '">Older →</a>' : '<span></span>' ?>

  </nav>
<?php endif ?>
<?php endif ?>
</section>
</div>
