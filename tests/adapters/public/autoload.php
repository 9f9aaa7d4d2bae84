<?php

/* Debian's packages, the suites below SUITES, and the package itself. */

declare(strict_types=1);

require_once '/usr/share/php/Composer/Autoload/ClassLoader.php';
$loader = new Composer\Autoload\ClassLoader();
$loader->addPsr4('Reprise\\', getenv('PACKAGE') . '/src/');
foreach (['Cache', 'Lock'] as $component) {
    $loader->addPsr4("Symfony\\Component\\$component\\Tests\\", getenv('SUITES') . "/symfony/src/Symfony/Component/$component/Tests/");
}
$loader->addPsr4('', '/usr/share/php/');
$loader->register();
foreach (['PHPUnit/Autoload', 'Cache/IntegrationTests/autoload', 'Psr/SimpleCache/autoload', 'Symfony/Component/Cache/autoload',
    'Symfony/Component/Lock/autoload', 'Mockery/autoload', 'Illuminate/Cache/autoload'] as $file) {
    if (stream_resolve_include_path("$file.php") !== false) {
        require_once "$file.php";
    }
}
