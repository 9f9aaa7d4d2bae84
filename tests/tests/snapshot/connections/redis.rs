//! Redis and Valkey, by PhpRedis.

use tests::Setup;
use tests::backends::Redis;
use tests::snapshot::rewind;

use crate::connections::{ENDS, Left, STAYS, four_visitors, keeping_in, nothing_is_carried_over};

const BOOT: &str = r#"
function redis(): Redis { $redis = new Redis; $redis->connect(getenv('SOCKET')); $redis->auth(['app', 'pw']); $redis->select(3); return $redis; }
redis()->close();
reprise_after_fork(function () { global $redis; $redis = redis(); $redis->client('setname', 'hooked'); });
"#;

const CASES: &str = r#"
case 'count': echo 1; break;
case 'look':
    preg_match_all('/\b(id|name|db|sub|psub|multi|watch|user|resp|redir|flags)=(\S*)/', $redis->rawCommand('CLIENT', 'INFO'), $found);
    $all = array_combine($found[1], $found[2]);
    echo $all['id'];
    // Since Valkey 8.1 and Redis 8 it is the size of a list that stays when a transaction ends; one that is open is among the flags.
    if ($all['multi'] === '0') $all['multi'] = '-1';
    unset($all['id']);
    echo ' ', json_encode([$all, $redis->getDBNum(), $redis->getMode(), $redis->get('never'), $redis->get('where')]);
    break;
case 'leave':
    switch ($_GET['how']) {
    case 'database': $redis->select(5); $redis->set('where', 'in 5'); break;
    case 'multi': $redis->multi(); $redis->set('never', 1); break;
    case 'pipeline': $redis->pipeline(); $redis->set('never', 1); break;
    case 'watch': $redis->watch('where'); break;
    case 'name': $redis->client('setname', 'left'); break;
    case 'user': $redis->auth(['other', 'pw']); break;
    case 'subscribe': $redis->rawCommand('SUBSCRIBE', 'left'); break;
    case 'pushed': $redis->rawCommand('SUBSCRIBE', 'left'); $other = redis(); $other->publish('left', 'secret'); break;
    case 'psubscribe': try { $redis->setOption(Redis::OPT_READ_TIMEOUT, 0.1); $redis->psubscribe(['*'], fn () => 0); } catch (RedisException) { echo 'thrown'; } break;
    case 'monitor': $redis->rawCommand('MONITOR'); break;
    case 'quiet': $redis->rawCommand('CLIENT', 'TRACKING', 'ON', 'BCAST'); break;
    case 'debug': $redis->rawCommand('SCRIPT', 'DEBUG', 'YES'); break;
    case 'evict': $redis->rawCommand('CLIENT', 'NO-EVICT', 'ON'); break;
    case 'hello': $redis->rawCommand('HELLO', '3'); break;
    case 'blocked': try { $redis->setOption(Redis::OPT_READ_TIMEOUT, 0.1); $redis->blPop(['left'], 3); } catch (RedisException) { echo 'thrown'; } break;
    case 'error': $redis->rawCommand('NONSENSE'); break;
    case 'killed': $redis->rawCommand('CLIENT', 'KILL', 'ID', (string) $redis->client('id'), 'SKIPME', 'no'); break;
    case 'killed_later':
        // Some tenths of a second. A script that asks for the time is told the same again and again.
        $slow = 'local n = 0 for i = 1, 3e7 do n = n + i end';
        $other = stream_socket_client('unix://' . getenv('SOCKET'));
        fwrite($other, "AUTH app pw\r\nEVAL \"$slow\" 0\r\nCLIENT KILL ID {$redis->client('id')}\r\n");
        break;
    case 'closed': $redis->close(); break;
    case 'exit': $redis->multi(); exit('exit');
    case 'fatal': $redis->select(5); $redis->multi(); nowhere();
    }
    break;
"#;

/// How a visitor leaves a session, and whether its connection stays.
const WAYS: Left<'static> = &[
    ("database", STAYS),
    ("multi", STAYS),
    ("pipeline", STAYS),
    ("watch", STAYS),
    ("name", STAYS),
    ("user", STAYS),
    ("subscribe", STAYS),
    ("pushed", ENDS),
    ("psubscribe", ENDS),
    ("monitor", STAYS),
    ("quiet", STAYS),
    ("debug", ENDS),
    ("evict", ENDS),
    ("hello", STAYS),
    ("blocked", ENDS),
    ("error", STAYS),
    ("killed", ENDS),
    // Between the request and the reset: the server has the reset, and closes before it replies.
    ("killed_later", ENDS),
    ("closed", ENDS),
    ("exit", STAYS),
    ("fatal", STAYS),
];

/// A Redis, and the server for so many workers.
fn with_redis(test: impl Fn(&dyn Fn(usize) -> Setup)) {
    let redis = Redis::start(&[
        "--user", "app", "on", ">pw", "~*", "&*", "+@all", "--user", "other", "on", ">pw", "~*", "&*", "+@all",
    ]);
    test(&|workers| keeping_in(workers, 4, BOOT, CASES).env("SOCKET", redis.socket().to_str().unwrap()));
}

/// Whatever a visitor leaves in its session, the next one finds the session as the hook has left it.
#[test]
fn the_next_visitor_finds_what_the_hook_has_left() {
    with_redis(|setup| rewind(|| setup(1), |lane| nothing_is_carried_over(lane, WAYS)));
}

#[test]
fn four_visitors_carry_nothing_over() {
    with_redis(|setup| rewind(|| setup(2), |lane| four_visitors(lane, WAYS)));
}
