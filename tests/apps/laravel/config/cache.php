<?php
return ['default' => env('CACHE_DRIVER', 'file'), 'stores' => ['apc' => ['driver' => 'apc'], 'array' => ['driver' => 'array', 'serialize' => false], 'file' => ['driver' => 'file', 'path' => storage_path('framework/cache/data')]], 'prefix' => 'test_cache'];
