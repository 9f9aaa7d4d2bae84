<?php
namespace App\Repository;

use Doctrine\DBAL\ArrayParameterType;
use Doctrine\DBAL\Connection;

final class TagRepository
{
    public function __construct(private Connection $db) {}

    public function forPosts(array $ids): array
    {
        if (!$ids) { return []; }
        $out = [];
        foreach ($this->db->executeQuery('SELECT pt.post_id, t.name FROM post_tag pt JOIN tag t ON t.id = pt.tag_id WHERE pt.post_id IN (?) ORDER BY t.name', [$ids], [ArrayParameterType::INTEGER])->iterateAssociative() as $r) { $out[$r['post_id']][] = $r['name']; }
        return $out;
    }

    public function cloud(): array { return $this->db->fetchAllAssociative('SELECT t.name, COUNT(*) AS n FROM tag t JOIN post_tag pt ON pt.tag_id = t.id GROUP BY t.id ORDER BY t.name'); }
}
