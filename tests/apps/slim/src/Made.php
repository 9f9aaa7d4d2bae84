<?php
namespace App;

/** A body that is made while it is read, as a PumpStream of Guzzle's. */
final class Made implements \Psr\Http\Message\StreamInterface
{
    private bool $isRead = false;
    public function __construct(private \Generator $parts) {}
    public function read($length): string { if ($this->eof()) return ''; $this->isRead = true; return $this->parts->current(); }
    // The next part is made no sooner than somebody asks for it.
    public function eof(): bool { if ($this->isRead) { $this->isRead = false; $this->parts->next(); } return !$this->parts->valid(); }
    public function getContents(): string { $all = ''; while (!$this->eof()) $all .= $this->read(8192); return $all; }
    public function __toString(): string { return $this->getContents(); }
    public function getSize(): ?int { return null; }
    public function isReadable(): bool { return true; }
    public function isSeekable(): bool { return false; }
    public function isWritable(): bool { return false; }
    public function close(): void {}
    public function detach() { return null; }
    public function tell(): int { throw new \RuntimeException('made, not kept'); }
    public function seek($offset, $whence = SEEK_SET): void { throw new \RuntimeException('made, not kept'); }
    public function rewind(): void { throw new \RuntimeException('made, not kept'); }
    public function write($string): int { throw new \RuntimeException('made, not written'); }
    public function getMetadata($key = null) { return $key === null ? [] : null; }
}
