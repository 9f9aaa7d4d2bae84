<?php
namespace App\Repository;

use Doctrine\DBAL\Connection;

final class MessageRepository
{
    public function __construct(private Connection $db) {}
    public function add(array $m): void { $this->create(); $this->db->insert('message', ['name' => $m['name'], 'email' => $m['email'], 'topic' => $m['topic'], 'message' => $m['message']]); }
    public function all(): array { $this->create(); return $this->db->executeQuery('SELECT * FROM message ORDER BY id')->fetchAllAssociative(); }
    private function create(): void { $this->db->executeStatement('CREATE TABLE IF NOT EXISTS message (id INTEGER PRIMARY KEY, name TEXT, email TEXT, topic TEXT, message TEXT)'); }
}
