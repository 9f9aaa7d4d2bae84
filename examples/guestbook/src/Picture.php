<?php
declare(strict_types=1);

namespace Guestbook;

/** An uploaded picture that has been checked and moved into the data directory. */
final class Picture
{
    public const MAX_BYTES = 2 * 1024 * 1024;

    private const TYPES = [
        IMAGETYPE_JPEG => ['image/jpeg', 'jpg'],
        IMAGETYPE_PNG => ['image/png', 'png'],
        IMAGETYPE_GIF => ['image/gif', 'gif'],
        IMAGETYPE_WEBP => ['image/webp', 'webp'],
    ];

    private function __construct(
        public readonly string $file,
        public readonly string $type,
        public readonly int $width,
        public readonly int $height,
    ) {
    }

    /** Why this upload cannot be used; null if it can. The name and type the browser sent count for nothing. */
    public static function problem(array $upload): ?string
    {
        return match ($upload['error']) {
            UPLOAD_ERR_OK => match (true) {
                $upload['size'] > self::MAX_BYTES => 'The picture is larger than 2 MB.',
                self::inspect($upload['tmp_name']) === null => 'The picture must be a JPEG, PNG, GIF or WebP file.',
                default => null,
            },
            UPLOAD_ERR_INI_SIZE, UPLOAD_ERR_FORM_SIZE => 'The picture is larger than 2 MB.',
            UPLOAD_ERR_PARTIAL => 'The picture arrived incomplete. Please try again.',
            default => 'The picture could not be stored on the server.',
        };
    }

    public static function store(array $upload, string $directory): self
    {
        [$type, $extension, $width, $height] = self::inspect($upload['tmp_name']);
        $file = bin2hex(random_bytes(12)) . ".$extension";
        if (!move_uploaded_file($upload['tmp_name'], "$directory/$file")) {
            throw new \RuntimeException("cannot store a picture in $directory");
        }

        return new self($file, $type, $width, $height);
    }

    /** @return array{string, string, int, int}|null  type, extension, width, height, by the file's content alone */
    private static function inspect(string $path): ?array
    {
        $info = @getimagesize($path); // warns about a file that ends early; null says that too
        if ($info === false || !isset(self::TYPES[$info[2]]) || $info[0] < 1 || $info[1] < 1) {
            return null;
        }

        return [...self::TYPES[$info[2]], $info[0], $info[1]];
    }
}
