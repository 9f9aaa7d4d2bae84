<?php use function Guestbook\h; ?>
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title><?= $title === 'Guestbook' ? 'Guestbook' : h($title) . ' · Guestbook' ?></title>
<link rel="stylesheet" href="/style.css">
<link rel="icon" href="/favicon.svg" type="image/svg+xml">
<link rel="alternate" href="/feed" type="application/atom+xml" title="Guestbook">
</head>
<body>
<header class="top">
  <a class="brand" href="/"><img src="/favicon.svg" width="32" height="32" alt="">Guestbook</a>
  <nav><a href="/about">About</a><a href="/feed">Feed</a></nav>
</header>
<main>
<?= $content ?>
</main>
<footer>Plain PHP and SQLite, the example application of Reprise. <a href="/about">How was this page served?</a></footer>
</body>
</html>
