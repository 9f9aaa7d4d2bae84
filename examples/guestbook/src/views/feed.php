<?php
use function Guestbook\h;

echo '<?xml version="1.0" encoding="utf-8"?>', "\n";
?>
<feed xmlns="http://www.w3.org/2005/Atom">
  <id><?= h($base) ?>/</id>
  <title>Guestbook</title>
  <updated><?= gmdate(DATE_ATOM, $entries[0]['created_at'] ?? 0) ?></updated>
  <link href="<?= h($base) ?>/"/>
  <link rel="self" href="<?= h($base) ?>/feed"/>
<?php foreach ($entries as $entry): ?>
  <entry>
    <id><?= h($base) ?>/entry/<?= $entry['id'] ?></id>
    <title><?= h($entry['name']) ?></title>
    <author><name><?= h($entry['name']) ?></name></author>
    <link href="<?= h($base) ?>/entry/<?= $entry['id'] ?>"/>
    <updated><?= gmdate(DATE_ATOM, $entry['created_at']) ?></updated>
    <content type="text"><?= h($entry['message']) ?></content>
  </entry>
<?php endforeach ?>
</feed>
