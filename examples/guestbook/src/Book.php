<?php
declare(strict_types=1);

namespace Guestbook;

/** The entries, in one SQLite file that many processes read and write at once. */
final class Book
{
    private const SCHEMA = <<<'SQL'
        PRAGMA journal_mode = WAL;
        CREATE TABLE entry (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            name TEXT NOT NULL,
            message TEXT NOT NULL,
            created_at INTEGER NOT NULL,
            picture TEXT,
            picture_type TEXT,
            picture_width INTEGER,
            picture_height INTEGER
        );
        SQL;

    private \PDO $db;

    public function __construct(string $directory)
    {
        $file = "$directory/guestbook.sqlite";
        if (!is_file($file)) {
            self::create($directory, $file);
        }
        $this->db = self::open($file);
        $this->db->exec('PRAGMA synchronous = NORMAL');
    }

    public function count(): int
    {
        return (int) $this->db->query('SELECT count(*) FROM entry')->fetchColumn();
    }

    /** Newest first. */
    public function entries(int $limit, int $offset = 0): array
    {
        $query = $this->db->prepare('SELECT * FROM entry ORDER BY id DESC LIMIT ? OFFSET ?');
        $query->execute([$limit, $offset]);

        return $query->fetchAll();
    }

    public function entry(int $id): ?array
    {
        $query = $this->db->prepare('SELECT * FROM entry WHERE id = ?');
        $query->execute([$id]);

        return $query->fetch() ?: null;
    }

    public function add(string $name, string $message, ?Picture $picture): int
    {
        $this->db->prepare(
            'INSERT INTO entry (name, message, created_at, picture, picture_type, picture_width, picture_height)
             VALUES (?, ?, ?, ?, ?, ?, ?)'
        )->execute([$name, $message, time(), $picture?->file, $picture?->type, $picture?->width, $picture?->height]);

        return (int) $this->db->lastInsertId();
    }

    private static function open(string $file): \PDO
    {
        return new \PDO("sqlite:$file", options: [
            \PDO::ATTR_ERRMODE => \PDO::ERRMODE_EXCEPTION,
            \PDO::ATTR_DEFAULT_FETCH_MODE => \PDO::FETCH_ASSOC,
            \PDO::ATTR_TIMEOUT => 5, // seconds to wait for another process's write
        ]);
    }

    // Many processes may come here at once at first use. One builds the file under another name and renames it when it is
    // whole; so nobody ever opens a database without its table, or while it changes to WAL.
    private static function create(string $directory, string $file): void
    {
        $lock = fopen("$directory/create.lock", 'c');
        if ($lock === false || !flock($lock, LOCK_EX)) {
            throw new \RuntimeException("cannot lock $directory/create.lock");
        }
        clearstatcache();
        if (!is_file($file)) {
            array_map('unlink', glob("$file.new*")); // left by a process that was killed here
            self::open("$file.new")->exec(self::SCHEMA);
            rename("$file.new", $file);
        }
        fclose($lock);
    }
}
