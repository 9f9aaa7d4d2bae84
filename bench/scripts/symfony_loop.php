<?php
// What tests/apps/symfony/public/snapshot.php does for one request, LOOP times in one process with nothing put back.
use App\{Kernel, Service\ConnectionFactory};
use Symfony\Component\{Dotenv\Dotenv, HttpFoundation\Request};

$application = getenv('APPLICATION');
require "$application/vendor/autoload.php";
(new Dotenv)->bootEnv("$application/.env");
$kernel = new Kernel($_SERVER['APP_ENV'], (bool) $_SERVER['APP_DEBUG']);
foreach (explode(' ', $_SERVER['WARM'] ?? '/hello / /post/5 /api/posts /about /hello/you') as $path) {
    $kernel->handle(Request::create($path, 'GET', [], [], [], $_SERVER));
}
$kernel->getContainer()->get('services_resetter')->reset();
ConnectionFactory::$last?->close();

function serve(Kernel $kernel): string
{
    ob_start();
    $response = $kernel->handle($request = Request::createFromGlobals());
    // Not send(): it ends the request and all buffers.
    $response->sendHeaders()->sendContent();
    $kernel->terminate($request, $response);
    header_remove();
    return ob_get_clean();
}

function processor_us(): float
{
    $used = getrusage();
    return ($used['ru_utime.tv_sec'] + $used['ru_stime.tv_sec']) * 1e6 + $used['ru_utime.tv_usec'] + $used['ru_stime.tv_usec'];
}

$loop = (int) getenv('LOOP');
for ($i = 0; $i < max(20, $loop / 10); $i++) {
    serve($kernel);
}
[$processor, $clock] = [processor_us(), hrtime(true)];
for ($i = 0; $i < $loop; $i++) {
    $body = serve($kernel);
}
[$clock, $processor] = [(hrtime(true) - $clock) / 1e3, processor_us() - $processor];
echo json_encode(['cpu_us' => $processor / $loop, 'wall_us' => $clock / $loop, 'size' => strlen($body), 'md5' => md5($body)]);
