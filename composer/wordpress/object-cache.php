<?php
/*
Plugin Name: Reprise, object cache
Description: WordPress' object cache in Reprise's data cache, which all workers share. Where the server is another one, WordPress' own cache is used.
License: MIT

To be dropped into wp-content. It needs nothing else of the package.
*/

declare(strict_types=1);

if (!defined('ABSPATH')) {
    exit;
}
// On the command line, and under another server, this file declares nothing, and WordPress loads its own cache.
if (function_exists('reprise_cache_fetch')) {
    /**
     * The name is WordPress' own. Values are in the data cache by site, group and key, and have their group and the whole cache as tags; what a request has asked
     * for or stored it also keeps, until it ends or wp_cache_flush_runtime() is called. Groups that are not persistent are in the request alone.
     */
    class WP_Object_Cache
    {
        /** Of a key, in bytes. */
        private const LONGEST = 1024;
        private const MOST_SECONDS = 1_000_000_000;

        public int $cache_hits = 0;
        public int $cache_misses = 0;
        /** @var array<string, array<string, mixed>> by group and key */
        private array $held = [];
        /** @var array<string, true> */
        private array $global_groups = [];
        /** @var array<string, true> */
        private array $request_groups = [];
        private string $blog_prefix;
        /** What tells WordPresses of one application apart. */
        private readonly string $site;
        private readonly object $none;

        public function __construct()
        {
            $this->site = 'wp:' . (defined('WP_CACHE_KEY_SALT') ? WP_CACHE_KEY_SALT : DB_NAME . ':' . $GLOBALS['table_prefix']) . ':';
            $this->none = new stdClass();
            $this->switch_to_blog(get_current_blog_id());
        }

        public function add($key, $data, $group = 'default', $expire = 0)
        {
            if (wp_suspend_cache_addition() || !$this->is_valid_key($key)) {
                return false;
            }
            [$group, $key] = $this->place($key, $group);
            if ($this->read($group, $key, false) !== $this->none) {
                return false;
            }

            return $this->write($group, $key, $data, $expire, true);
        }

        public function replace($key, $data, $group = 'default', $expire = 0)
        {
            if (!$this->is_valid_key($key)) {
                return false;
            }
            [$group, $key] = $this->place($key, $group);

            return $this->read($group, $key, true) !== $this->none && $this->write($group, $key, $data, $expire);
        }

        public function set($key, $data, $group = 'default', $expire = 0)
        {
            return $this->is_valid_key($key) && $this->write(...[...$this->place($key, $group), $data, $expire]);
        }

        public function get($key, $group = 'default', $force = false, &$found = null)
        {
            $found = false;
            if (!$this->is_valid_key($key)) {
                return false;
            }
            $value = $this->read(...[...$this->place($key, $group), (bool) $force]);
            if ($value === $this->none) {
                $this->cache_misses++;

                return false;
            }
            $this->cache_hits++;
            $found = true;

            return is_object($value) ? clone $value : $value;
        }

        public function delete($key, $group = 'default')
        {
            if (!$this->is_valid_key($key)) {
                return false;
            }
            [$group, $key] = $this->place($key, $group);
            $was_held = array_key_exists($key, $this->held[$group] ?? []);
            unset($this->held[$group][$key]);

            return $this->is_shared($group) ? reprise_cache_delete($this->id($group, $key)) || $was_held : $was_held;
        }

        public function decr($key, $offset = 1, $group = 'default')
        {
            return $this->incr($key, -(int) $offset, $group);
        }

        /** Adds to a number, which stays 0 or more. False: there is none. */
        public function incr($key, $offset = 1, $group = 'default')
        {
            if (!$this->is_valid_key($key)) {
                return false;
            }
            [$offset, [$group, $key]] = [(int) $offset, $this->place($key, $group)];
            $value = $this->read($group, $key, true);
            if ($value === $this->none) {
                return false;
            }
            $sum = is_int($value) && $this->is_shared($group) ? reprise_cache_increment($this->id($group, $key), $offset) : false;
            if ($sum === false || $sum < 0) {
                $sum = max(0, $sum === false ? (is_numeric($value) ? (int) $value : 0) + $offset : $sum);
                $this->write($group, $key, $sum, 0);
            }

            return $this->held[$group][$key] = $sum;
        }

        public function flush()
        {
            $this->held = [];

            return reprise_cache_invalidate([$this->short($this->site)]);
        }

        public function flush_runtime()
        {
            $this->held = [];

            return true;
        }

        /** Of all sites of a network. */
        public function flush_group($group)
        {
            $group = self::group($group);
            unset($this->held[$group]);

            return !$this->is_shared($group) || reprise_cache_invalidate([$this->tag($group)]);
        }

        public function add_global_groups($groups): void
        {
            $this->global_groups += array_fill_keys((array) $groups, true);
        }

        public function add_non_persistent_groups($groups): void
        {
            $this->request_groups += array_fill_keys((array) $groups, true);
        }

        public function switch_to_blog($blog_id): void
        {
            $this->blog_prefix = is_multisite() ? (int) $blog_id . ':' : '';
        }

        /** Printed by plugins for developers. */
        public function stats(): void
        {
            printf('<p><strong>Cache Hits:</strong> %d<br><strong>Cache Misses:</strong> %d</p>', $this->cache_hits, $this->cache_misses);
        }

        private function is_valid_key(mixed $key): bool
        {
            if (is_int($key) || (is_string($key) && trim($key) !== '')) {
                return true;
            }
            if (function_exists('__')) {
                _doing_it_wrong('wp_cache', 'A key of the cache is an integer, or a string that is not empty.', '6.1.0');
            }

            return false;
        }

        private function is_shared(string $group): bool
        {
            return !isset($this->request_groups[$group]);
        }

        private static function group(mixed $group): string
        {
            return empty($group) ? 'default' : (string) $group;
        }

        /** @return array{string, string} group and key */
        private function place(int|string $key, mixed $group): array
        {
            $group = self::group($group);

            return [$group, (isset($this->global_groups[$group]) ? '' : $this->blog_prefix) . $key];
        }

        private function id(string $group, string $key): string
        {
            return $this->short("$this->site$group:$key");
        }

        private function tag(string $group): string
        {
            return $this->short("$this->site#$group");
        }

        private function short(string $name): string
        {
            return strlen($name) <= self::LONGEST ? $name : substr($name, 0, 900) . hash('sha256', $name);
        }

        /** The value, or `none`. */
        private function read(string $group, string $key, bool $force): mixed
        {
            $shared = $this->is_shared($group);
            if (!($force && $shared) && array_key_exists($key, $this->held[$group] ?? [])) {
                return $this->held[$group][$key];
            }
            $value = $shared ? reprise_cache_fetch($this->id($group, $key), $this->none) : $this->none;
            if ($value === $this->none) {
                unset($this->held[$group][$key]);
            } else {
                $this->held[$group][$key] = $value;
            }

            return $value;
        }

        /** False: there is a value, or it cannot be shared; in the second case the request has it. */
        private function write(string $group, string $key, mixed $data, mixed $expire, bool $only_new = false): bool
        {
            $data = is_object($data) ? clone $data : $data;
            $stored = true;
            if ($this->is_shared($group)) {
                [$id, $expire] = [$this->id($group, $key), min(max(0, (int) $expire), self::MOST_SECONDS)];
                $tags = [$this->short($this->site), $this->tag($group)];
                try {
                    $stored = $only_new ? reprise_cache_add($id, $data, $expire, $tags) : reprise_cache_store($id, $data, $expire, $tags);
                } catch (Throwable) {
                    // It cannot be serialized.
                    $stored = false;
                }
                if (!$stored && $only_new && reprise_cache_fetch($id, $this->none) !== $this->none) {
                    // Another request was faster.
                    return false;
                }
                if (!$stored) {
                    // Nobody shall get the value that this one replaces.
                    reprise_cache_delete($id);
                }
            }
            $this->held[$group][$key] = $data;

            return $stored;
        }
    }

    function wp_cache_init(): void
    {
        $GLOBALS['wp_object_cache'] = new WP_Object_Cache();
    }

    function wp_cache_add($key, $data, $group = '', $expire = 0)
    {
        return $GLOBALS['wp_object_cache']->add($key, $data, $group, $expire);
    }

    function wp_cache_add_multiple(array $data, $group = '', $expire = 0)
    {
        $added = [];
        foreach ($data as $key => $value) {
            $added[$key] = wp_cache_add($key, $value, $group, $expire);
        }

        return $added;
    }

    function wp_cache_replace($key, $data, $group = '', $expire = 0)
    {
        return $GLOBALS['wp_object_cache']->replace($key, $data, $group, $expire);
    }

    function wp_cache_set($key, $data, $group = '', $expire = 0)
    {
        return $GLOBALS['wp_object_cache']->set($key, $data, $group, $expire);
    }

    function wp_cache_set_multiple(array $data, $group = '', $expire = 0)
    {
        $set = [];
        foreach ($data as $key => $value) {
            $set[$key] = wp_cache_set($key, $value, $group, $expire);
        }

        return $set;
    }

    function wp_cache_get($key, $group = '', $force = false, &$found = null)
    {
        return $GLOBALS['wp_object_cache']->get($key, $group, $force, $found);
    }

    function wp_cache_get_multiple($keys, $group = '', $force = false)
    {
        $values = [];
        foreach ($keys as $key) {
            $values[$key] = wp_cache_get($key, $group, $force);
        }

        return $values;
    }

    function wp_cache_delete($key, $group = '')
    {
        return $GLOBALS['wp_object_cache']->delete($key, $group);
    }

    function wp_cache_delete_multiple(array $keys, $group = '')
    {
        $deleted = [];
        foreach ($keys as $key) {
            $deleted[$key] = wp_cache_delete($key, $group);
        }

        return $deleted;
    }

    function wp_cache_incr($key, $offset = 1, $group = '')
    {
        return $GLOBALS['wp_object_cache']->incr($key, $offset, $group);
    }

    function wp_cache_decr($key, $offset = 1, $group = '')
    {
        return $GLOBALS['wp_object_cache']->decr($key, $offset, $group);
    }

    function wp_cache_flush()
    {
        return $GLOBALS['wp_object_cache']->flush();
    }

    function wp_cache_flush_runtime()
    {
        return $GLOBALS['wp_object_cache']->flush_runtime();
    }

    function wp_cache_flush_group($group)
    {
        return $GLOBALS['wp_object_cache']->flush_group($group);
    }

    function wp_cache_supports($feature)
    {
        return in_array($feature, ['add_multiple', 'set_multiple', 'get_multiple', 'delete_multiple', 'flush_runtime', 'flush_group'], true);
    }

    function wp_cache_close()
    {
        return true;
    }

    function wp_cache_add_global_groups($groups): void
    {
        $GLOBALS['wp_object_cache']->add_global_groups($groups);
    }

    function wp_cache_add_non_persistent_groups($groups): void
    {
        $GLOBALS['wp_object_cache']->add_non_persistent_groups($groups);
    }

    function wp_cache_switch_to_blog($blog_id): void
    {
        $GLOBALS['wp_object_cache']->switch_to_blog($blog_id);
    }

    function wp_cache_reset(): void
    {
        _deprecated_function(__FUNCTION__, '3.5.0', 'wp_cache_switch_to_blog()');
        wp_cache_flush_runtime();
    }
}
