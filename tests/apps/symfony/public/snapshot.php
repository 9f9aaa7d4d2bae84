<?php
// The front controller, booted and warmed by hand: what stands before reprise_snapshot() runs once.
use App\{Kernel, Service\ConnectionFactory};
use Symfony\Component\{Dotenv\Dotenv, HttpFoundation\Request, Runtime\Internal\SymfonyErrorHandler};

require dirname(__DIR__).'/vendor/autoload.php';
(new Dotenv)->bootEnv(dirname(__DIR__).'/.env');
SymfonyErrorHandler::register((bool) $_SERVER['APP_DEBUG']);
$kernel = new Kernel($_SERVER['APP_ENV'], (bool) $_SERVER['APP_DEBUG']);
foreach (explode(' ', $_SERVER['WARM'] ?? '/hello / /post/5 /api/posts /about /hello/you') as $path) {
    $kernel->handle(Request::create($path, 'GET', [], [], [], $_SERVER));
}
$kernel->getContainer()->get('services_resetter')->reset();
ConnectionFactory::$last?->close();
reprise_snapshot();
$response = $kernel->handle($request = Request::createFromGlobals());
$response->send();
$kernel->terminate($request, $response);
