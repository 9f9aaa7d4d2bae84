<?php
namespace App\Service;

final class FeedBuilder
{
    public function __construct(private \Symfony\Component\Routing\Generator\UrlGeneratorInterface $urls, private Excerpter $excerpter) {}
    public function rss(array $posts): string { $x = '<?xml version="1.0"?><rss version="2.0"><channel><title>Test Blog</title>'; foreach ($posts as $p) { $x .= '<item><title>'.htmlspecialchars($p->title).'</title><link>'.$this->urls->generate('post', ['id' => $p->id], 0).'</link><description>'.htmlspecialchars($this->excerpter->excerpt($p->body)).'</description></item>'; } return $x.'</channel></rss>'; }
}
