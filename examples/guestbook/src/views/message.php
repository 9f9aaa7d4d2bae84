<?php use function Guestbook\h; ?>
<section class="narrow message">
  <p class="status"><?= $status ?></p>
  <h1><?= h($title) ?></h1>
  <p class="lead"><?= h($text) ?></p>
  <p class="back"><a href="/">← To the guestbook</a></p>
</section>
