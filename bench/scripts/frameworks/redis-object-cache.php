<?php
/*
Plugin Name: Redis object cache of bench/cache-frameworks
Description: The least that is WordPress' object cache over PhpRedis: one connection, igbinary, one MGET for many keys. To measure with; for a site use a maintained plugin.
*/

if (!defined('ABSPATH')) {
    exit;
}

class WP_Object_Cache
{
    public int $cache_hits = 0;
    public int $cache_misses = 0;
    private array $held = [];
    private array $global_groups = [];
    private array $request_groups = [];
    private string $blog_prefix = '';
    private ?Redis $redis = null;

    public function __construct()
    {
        $this->switch_to_blog(get_current_blog_id());
        // A snapshot has no open connection.
        add_action('reprise_before_snapshot', function (): void {
            $this->redis?->close();
            $this->redis = null;
        });
    }

    private function redis(): Redis
    {
        if ($this->redis === null) {
            $this->redis = new Redis();
            $this->redis->pconnect(getenv('REDIS_SOCKET'));
            $this->redis->setOption(Redis::OPT_SERIALIZER, Redis::SERIALIZER_IGBINARY);
        }

        return $this->redis;
    }

    private function id(string $key, string $group): string
    {
        return 'wp:' . (isset($this->global_groups[$group]) ? '' : $this->blog_prefix) . "$group:$key";
    }

    private function is_shared(string $group): bool
    {
        return !isset($this->request_groups[$group]);
    }

    private static function is_valid(mixed $key): bool
    {
        return is_int($key) || (is_string($key) && trim($key) !== '');
    }

    public function get($key, $group, $force = false, &$found = null)
    {
        return self::is_valid($key) ? $this->get_multiple([$key], $group, $force, $found)[$key] : false;
    }

    public function get_multiple($keys, $group, $force = false, &$found = null)
    {
        $group = $group ?: 'default';
        [$values, $missing] = [[], []];
        foreach ($keys as $key) {
            $id = $this->id((string) $key, $group);
            if (!($force && $this->is_shared($group)) && array_key_exists($id, $this->held)) {
                $values[$key] = $this->held[$id];
            } else {
                [$values[$key], $missing[$key]] = [null, $id];
            }
        }
        if ($missing && $this->is_shared($group)) {
            // false is a value too: it is stored in an array.
            foreach (array_combine(array_keys($missing), $this->redis()->mGet(array_values($missing))) as $key => $value) {
                if (is_array($value)) {
                    $values[$key] = $this->held[$missing[$key]] = $value;
                }
            }
        }
        foreach ($values as $key => $value) {
            $found = $value !== null;
            $found ? $this->cache_hits++ : $this->cache_misses++;
            $values[$key] = $found ? (is_object($value[0]) ? clone $value[0] : $value[0]) : false;
        }

        return $values;
    }

    public function write($key, $data, $group, $expire, $options = [])
    {
        if (!self::is_valid($key)) {
            return false;
        }
        $group = $group ?: 'default';
        $id = $this->id((string) $key, $group);
        $value = [is_object($data) ? clone $data : $data];
        if ($this->is_shared($group)) {
            try {
                if (!$this->redis()->set($id, $value, $expire > 0 ? ['ex' => (int) $expire] + $options : $options)) {
                    return false;
                }
            } catch (Exception) {
                // It cannot be serialized: the request has it.
                $this->redis()->del($id);
            }
        } elseif ($options && isset($this->held[$id]) === in_array('nx', $options)) {
            return false;
        }
        $this->held[$id] = $value;

        return true;
    }

    public function delete($key, $group)
    {
        $group = $group ?: 'default';
        $id = $this->id((string) $key, $group);
        $was_held = isset($this->held[$id]);
        unset($this->held[$id]);

        return $this->is_shared($group) ? $this->redis()->del($id) > 0 : $was_held;
    }

    public function incr($key, $offset, $group)
    {
        $value = $this->get($key, $group, true, $found);
        if (!$found) {
            return false;
        }
        $sum = max(0, (int) $value + (int) $offset);
        $this->write($key, $sum, $group, 0);

        return $sum;
    }

    public function flush()
    {
        $this->held = [];

        return $this->redis()->flushDB();
    }

    public function flush_runtime()
    {
        $this->held = [];

        return true;
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
        $this->blog_prefix = is_multisite() ? "$blog_id:" : '';
    }
}

function wp_cache_init(): void { $GLOBALS['wp_object_cache'] = new WP_Object_Cache(); }
function wp_cache_add($key, $data, $group = '', $expire = 0) { return !wp_suspend_cache_addition() && $GLOBALS['wp_object_cache']->write($key, $data, $group, $expire, ['nx']); }
function wp_cache_replace($key, $data, $group = '', $expire = 0) { return $GLOBALS['wp_object_cache']->write($key, $data, $group, $expire, ['xx']); }
function wp_cache_set($key, $data, $group = '', $expire = 0) { return $GLOBALS['wp_object_cache']->write($key, $data, $group, $expire); }
function wp_cache_get($key, $group = '', $force = false, &$found = null) { return $GLOBALS['wp_object_cache']->get($key, $group, $force, $found); }
function wp_cache_get_multiple($keys, $group = '', $force = false) { return $GLOBALS['wp_object_cache']->get_multiple($keys, $group, $force); }
function wp_cache_delete($key, $group = '') { return $GLOBALS['wp_object_cache']->delete($key, $group); }
function wp_cache_incr($key, $offset = 1, $group = '') { return $GLOBALS['wp_object_cache']->incr($key, $offset, $group); }
function wp_cache_decr($key, $offset = 1, $group = '') { return $GLOBALS['wp_object_cache']->incr($key, -$offset, $group); }
function wp_cache_flush() { return $GLOBALS['wp_object_cache']->flush(); }
function wp_cache_flush_runtime() { return $GLOBALS['wp_object_cache']->flush_runtime(); }
function wp_cache_supports($feature) { return in_array($feature, ['add_multiple', 'set_multiple', 'get_multiple', 'delete_multiple', 'flush_runtime'], true); }
function wp_cache_close() { return true; }
function wp_cache_add_global_groups($groups): void { $GLOBALS['wp_object_cache']->add_global_groups($groups); }
function wp_cache_add_non_persistent_groups($groups): void { $GLOBALS['wp_object_cache']->add_non_persistent_groups($groups); }
function wp_cache_switch_to_blog($blog_id): void { $GLOBALS['wp_object_cache']->switch_to_blog($blog_id); }
foreach (['add', 'set'] as $verb) {
    eval("function wp_cache_{$verb}_multiple(array \$data, \$group = '', \$expire = 0) { \$done = []; foreach (\$data as \$key => \$value) { \$done[\$key] = wp_cache_$verb(\$key, \$value, \$group, \$expire); } return \$done; }");
}
function wp_cache_delete_multiple(array $keys, $group = '') { return array_combine($keys, array_map(static fn ($key) => wp_cache_delete($key, $group), $keys)); }
