<?php

declare(strict_types=1);

namespace Reprise\Laravel;

use Illuminate\Contracts\Filesystem\FileNotFoundException;
use Illuminate\Foundation\Application;
use Illuminate\View\Engines\CompilerEngine;
use Illuminate\View\ViewException;

/**
 * Blade's views. Laravel 8 looks at both files of a view, its own and the compiled one, each time that it is included; here once per request, as in Laravel 13.
 *
 * @internal
 */
final class Views extends CompilerEngine
{
    /** @var array<string, true> paths of views whose compiled file is newer, as this request has seen it */
    private array $fresh = [];

    /** Gives it to the application, if Blade's engine is Laravel's own and looks each time. */
    public static function giveTo(Application $app): void
    {
        if (!$app->bound('view.engine.resolver')) {
            return;
        }
        $engines = $app['view.engine.resolver'];
        $engine = $engines->resolve('blade');
        if ($engine::class !== CompilerEngine::class || property_exists($engine, 'compiledOrNotExpired')) {
            return;
        }
        $own = new self($engine->getCompiler(), $app['files']);
        $engines->register('blade', static fn () => $own);
        // For State, which has it forget.
        $app->instance(self::class, $own);
    }

    public function get($path, array $data = [])
    {
        $this->lastCompiled[] = $path;
        if (!isset($this->fresh[$path]) && $this->compiler->isExpired($path)) {
            $this->compiler->compile($path);
        }
        $this->fresh[$path] = true;
        $compiled = $this->compiler->getCompiledPath($path);
        try {
            $results = $this->evaluatePath($compiled, $data);
        } catch (ViewException $error) {
            // `view:clear` has run since.
            if (!$error->getPrevious() instanceof FileNotFoundException || is_file($compiled)) {
                throw $error;
            }
            $this->compiler->compile($path);
            $results = $this->evaluatePath($compiled, $data);
        }
        array_pop($this->lastCompiled);

        return $results;
    }

    /** Another request begins. A view that has thrown is still among those being rendered. */
    public function forget(): void
    {
        [$this->fresh, $this->lastCompiled] = [[], []];
    }
}
