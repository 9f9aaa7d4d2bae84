<?php
use function Guestbook\h;

$text = static fn (mixed $value): string => is_string($value) ? $value
    : json_encode($value, JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE | JSON_PARTIAL_OUTPUT_ON_ERROR);
?>
<section class="narrow">
  <h1>How this page was served</h1>
  <p class="lead">This guestbook is ordinary PHP: a front controller, a session, an SQLite file, uploads on disk. It knows
  nothing of the server under it, and runs the same under any other.</p>
  <dl class="facts">
<?php foreach ($facts as $name => $value): ?>
    <div><dt><?= h($name) ?></dt><dd><?= h($value) ?></dd></div>
<?php endforeach ?>
  </dl>
<?php if ($reprise !== null): ?>
  <h2>Reprise says</h2>
  <dl class="facts">
<?php foreach ($reprise as $name => $value): ?>
    <div><dt><?= h($name) ?></dt><dd><?= h($text($value)) ?></dd></div>
<?php endforeach ?>
  </dl>
<?php endif ?>
  <p class="back"><a href="/">← All entries</a></p>
</section>
