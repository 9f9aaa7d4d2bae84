<?php use function Guestbook\{h, hue, initial, when}; ?>
<article class="card single">
  <span class="avatar <?= hue($entry['name']) ?>" aria-hidden="true"><?= h(initial($entry['name'])) ?></span>
  <div>
    <h1 class="who"><strong><?= h($entry['name']) ?></strong>
      <time datetime="<?= gmdate(DATE_ATOM, $entry['created_at']) ?>"><?= when($entry['created_at']) ?></time></h1>
    <p class="text"><?= h($entry['message']) ?></p>
<?php if ($entry['picture'] !== null): ?>
    <a class="picture" href="/picture/<?= $entry['id'] ?>"><img src="/picture/<?= $entry['id'] ?>" width="<?= $entry['picture_width'] ?>" height="<?= $entry['picture_height'] ?>" alt="Picture by <?= h($entry['name']) ?>"></a>
<?php endif ?>
  </div>
</article>
<p class="back"><a href="/">← All entries</a></p>
