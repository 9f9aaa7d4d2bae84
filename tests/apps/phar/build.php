<?php
// php -d phar.readonly=0 build.php DIRECTORY   Writes DIRECTORY/library.phar: three classes and their autoloader.
$file = "$argv[1]/library.phar";
$phar = new Phar($file);
$phar['src/Greeter.php'] = '<?php
namespace Library;

final class Greeter
{
    public function greet(string $who): string { return (new Words\Greeting)->of($who) . ", says " . basename(__FILE__); }
}';
$phar['src/Words/Greeting.php'] = '<?php
namespace Library\Words;

final class Greeting
{
    private static int $said = 0;
    public function of(string $who): string { return "Hello $who for the " . ++self::$said . ". time"; }
}';
$phar['src/Farewell.php'] = '<?php
namespace Library;

final class Farewell
{
    public function __toString(): string { return "Good bye, says " . basename(__DIR__); }
}';
$phar->setStub('<?php
Phar::mapPhar("library.phar");
spl_autoload_register(function (string $class): void {
    if (str_starts_with($class, "Library\\\\")) {
        require "phar://library.phar/src/" . strtr(substr($class, 8), "\\\\", "/") . ".php";
    }
});
__HALT_COMPILER();');
unset($phar);

// opcache takes no file without a time, and Debian's PHP writes none. Builders of phars put it there afterwards, as here.
$raw = file_get_contents($file);
$hash = strlen($raw) - 8 - 32;
if (unpack('V', $raw, $hash + 32)[1] !== Phar::SHA256) { throw new Exception('another signature'); }
$raw = substr($raw, 0, $hash);
$at = strpos($raw, '__HALT_COMPILER();') + strlen('__HALT_COMPILER(); ?>') + 2;
$count = unpack('V', $raw, $at + 4)[1];
$at += 18 + unpack('V', $raw, $at + 14)[1];
$at += 4 + unpack('V', $raw, $at)[1];
for ($entry = 0; $entry < $count; $entry++) {
    $at += 4 + unpack('V', $raw, $at)[1];
    $raw = substr_replace($raw, pack('V', 1700000000), $at + 4, 4);
    $at += 24 + unpack('V', $raw, $at + 20)[1];
}
file_put_contents($file, $raw . hash('sha256', $raw, true) . pack('V', Phar::SHA256) . 'GBMB');
