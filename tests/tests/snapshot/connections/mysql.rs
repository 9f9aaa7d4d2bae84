//! MariaDB, by mysqli and by PDO.

use tests::Setup;
use tests::peer::Database;
use tests::snapshot::rewind;

use crate::connections::{EITHER, ENDS, Left, STAYS, four_visitors, keeping_in, nothing_is_carried_over};

const BOOT: &str = r#"
mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);
function by_mysqli(): mysqli {
    $db = new mysqli('localhost', 'app', getenv('PASSWORD'), 'one', 0, getenv('SOCKET'));
    $db->set_charset('utf8mb4');
    $db->query("set time_zone = '+05:00', @hook = 'set'");
    return $db;
}
function by_pdo(): PDO {
    $pdo = new PDO('mysql:unix_socket=' . getenv('SOCKET') . ';dbname=one;charset=utf8mb4', 'app', getenv('PASSWORD'), [PDO::ATTR_EMULATE_PREPARES => false, PDO::MYSQL_ATTR_MULTI_STATEMENTS => false]);
    $pdo->prepare("set session sql_mode = 'ANSI_QUOTES,STRICT_ALL_TABLES'")->execute();
    $pdo->exec('use two');
    return $pdo;
}
by_mysqli()->close();
by_pdo();
class Broken { public $context; private $path; function stream_open($path) { $this->path = $path; return true; } function stream_stat() { return []; } function stream_read($n) { static $calls = 0; if (++$calls > 1) { if ($this->path === 'broken://thrown') nowhere(); str_repeat('x', 1 << 40); } return str_repeat("1\n", (int) ($n / 2)); } function stream_eof() { return false; } function stream_set_option() { return true; } }
stream_wrapper_register('broken', 'Broken');
reprise_after_fork(function () { global $db, $pdo; $db = by_mysqli(); $pdo = by_pdo(); });
function state(callable $row, callable $fails): array {
    return [
        $row('select last_insert_id(), found_rows(), row_count(), @@warning_count'),
        $row('select database(), current_user(), current_role(), @hook, @left, @@autocommit, @@in_transaction, @@tx_isolation, @@tx_read_only, @@character_set_client, @@character_set_results, @@collation_connection, @@collation_database, @@time_zone, @@sql_mode, @@foreign_key_checks, @@insert_id, @@timestamp > 1000000000, @@profiling, @@max_statement_time, @@sql_log_bin'),
        $row("select count(*), coalesce(is_used_lock('left') = connection_id(), 0) from one.rows where n = 1"),
        $row('select count(*) from information_schema.profiling'),
        $row('select rand() = ' . (float) @file_get_contents(getenv('PLACE') . '/rand')),
        array_map($fails, ['select * from one.own', 'execute left_one', 'handler one.rows read first', 'select 1; select 2', 'select * from t_not_locked_or_there']),
    ];
}
"#;

const CASES: &str = r#"
case 'count': echo 2; break;
case 'look':
    echo $db->thread_id, '/', $pdo->query('select connection_id()')->fetchColumn(), ' ';
    echo json_encode(state(fn ($sql) => $db->query($sql)->fetch_row(), function ($sql) use ($db) { try { $db->query($sql); return 'ok'; } catch (mysqli_sql_exception $e) { return $e->getCode(); } }));
    echo json_encode(state(fn ($sql) => $pdo->query($sql)->fetch(PDO::FETCH_NUM), function ($sql) use ($pdo) { try { $pdo->query($sql); return 'ok'; } catch (PDOException $e) { return $e->errorInfo[1]; } }));
    break;
case 'leave':
    $say = function (string ...$all) use ($db, $pdo) { foreach ($all as $sql) { $db->query($sql); $pdo->exec($sql); } };
    switch ($_GET['how']) {
    case 'transaction': $say('begin', 'insert into one.rows values (1)'); break;
    case 'pdo_transaction': $pdo->beginTransaction(); $pdo->exec('insert into one.rows values (1)'); $db->begin_transaction(); break;
    case 'autocommit': $say('set autocommit = 0', 'insert into one.rows values (1)'); break;
    case 'temporary': $say('create temporary table one.own (n int)'); break;
    case 'variable': $say("set @left = 5, @hook = 'gone'", 'set insert_id = 77', 'set timestamp = 1000'); break;
    case 'settings': $say("set sql_mode = '', foreign_key_checks = 0, max_statement_time = 5, sql_log_bin = 0", "set time_zone = '+01:00', collation_database = latin1_bin"); break;
    case 'isolation': $say('set session transaction isolation level serializable', 'set session transaction read only'); break;
    case 'next_transaction': $say('set transaction isolation level serializable, read only'); break;
    case 'lock': $db->query("select get_lock('left', 0)"); break;
    case 'lock_tables': $db->query('lock tables one.rows write'); break;
    case 'statement': $say("prepare left_one from 'select 1'"); $GLOBALS['s'] = $db->prepare('select ?'); $GLOBALS['t'] = $pdo->prepare('select 1'); $GLOBALS['t']->execute(); break;
    case 'cursor': $s = $db->prepare('select seq from one.seq_1_to_5000'); $s->attr_set(MYSQLI_STMT_ATTR_CURSOR_TYPE, MYSQLI_CURSOR_TYPE_READ_ONLY); $s->execute(); $s->bind_result($n); $s->fetch(); echo $n; $GLOBALS['s'] = $s; break;
    case 'handler': $say('handler one.rows open'); break;
    case 'unread': $r = $db->query('select seq from one.seq_1_to_5000', MYSQLI_USE_RESULT); echo $r->fetch_row()[0]; $GLOBALS['r'] = $r; break;
    case 'unread_pdo': $pdo->setAttribute(PDO::MYSQL_ATTR_USE_BUFFERED_QUERY, false); $r = $pdo->query('select seq from one.seq_1_to_5000'); echo $r->fetchColumn(); $GLOBALS['r'] = $r; break;
    case 'async': $db->query('select sleep(0.2)', MYSQLI_ASYNC); break;
    case 'async_long': $db->query('select sleep(4)', MYSQLI_ASYNC); break;
    case 'async_ok': $db->query('set @left = sleep(0.2)', MYSQLI_ASYNC); break;
    case 'multi': $db->multi_query('select 1; select 2'); break;
    case 'multi_on': $db->multi_query('select 1'); $db->store_result(); break;
    case 'charset': $db->set_charset('latin1'); $pdo->exec("set names 'ascii'"); break;
    case 'database': $db->select_db('two'); $pdo->exec('use one'); break;
    case 'user': $db->change_user('other', 'pw', 'two'); break;
    case 'role': $say('set role helpers'); break;
    case 'profile': $say('set profiling = 1', "do 'a secret of the visitor'"); break;
    case 'warning': $db->query('select 1 / 0'); $pdo->exec('drop table if exists one.nothing'); break;
    case 'last': $db->query('insert into one.numbered values ()'); echo $db->insert_id; $db->query('select sql_calc_found_rows seq from one.seq_1_to_10 limit 2'); break;
    case 'rand': $say('set rand_seed1 = 5, rand_seed2 = 6'); file_put_contents(getenv('PLACE') . '/rand', '0.00000002'); break;
    case 'xa': $db->query("xa start 'left'"); $db->query('insert into one.rows values (1)'); break;
    case 'read_lock': $db->query('flush tables with read lock'); break;
    case 'error': try { $db->query('nonsense'); } catch (mysqli_sql_exception) { echo 'error'; } break;
    case 'killed': try { $db->query('kill connection_id()'); } catch (mysqli_sql_exception) { echo 'killed'; } break;
    case 'closed': $db->close(); break;
    case 'closed_pdo': $pdo = null; unset($GLOBALS['pdo']); break;
    case 'file': file_put_contents(getenv('PLACE') . '/rows', "7\n8\n"); $db->options(MYSQLI_OPT_LOCAL_INFILE, 1); $db->query("load data local infile '" . getenv('PLACE') . "/rows' into table one.loaded"); echo $db->affected_rows; break;
    case 'file_broken': $db->options(MYSQLI_OPT_LOCAL_INFILE, 1); $db->query("load data local infile 'broken://a' into table one.loaded"); break;
    case 'file_thrown': $db->options(MYSQLI_OPT_LOCAL_INFILE, 1); $db->query("load data local infile 'broken://thrown' into table one.loaded"); break;
    case 'exit': $say('begin', 'insert into one.rows values (1)'); exit('exit');
    case 'fatal': $say('begin', 'insert into one.rows values (1)'); nowhere();
    case 'memory': $say('begin'); ini_set('memory_limit', '12M'); $db->query("select '" . str_repeat('x', 1 << 20) . "', repeat('y', 16000000)"); break;
    case 'raw': $libc = FFI::cdef('long send(int, const char *, unsigned long, int);'); for ($i = 3; $i < 20; $i++) $libc->send($i, "\x40\0\0\0\x03select", 11, 0x4000); break;
    case 'program': exec('true'); break;
    case 'child': proc_close(proc_open(['true'], [], $pipes)); break;
    }
    break;
"#;

/// How a visitor leaves a session, and whether its connection stays.
const WAYS: Left<'static> = &[
    ("transaction", STAYS),
    ("pdo_transaction", STAYS),
    ("autocommit", STAYS),
    ("temporary", STAYS),
    ("variable", STAYS),
    ("settings", STAYS),
    ("isolation", STAYS),
    ("next_transaction", STAYS),
    ("lock", STAYS),
    ("lock_tables", STAYS),
    ("statement", STAYS),
    ("cursor", STAYS),
    ("handler", STAYS),
    ("unread", STAYS),
    ("unread_pdo", STAYS),
    ("async", ENDS),
    // Longer than a reset waits for its replies.
    ("async_long", ENDS),
    ("async_ok", ENDS),
    // As it comes: the reply may have been received as a whole.
    ("multi", EITHER),
    ("multi_on", STAYS),
    ("charset", STAYS),
    ("database", STAYS),
    ("user", ENDS),
    ("role", ENDS),
    ("profile", STAYS),
    ("warning", STAYS),
    ("last", STAYS),
    ("rand", STAYS),
    ("xa", ENDS),
    ("read_lock", STAYS),
    ("error", STAYS),
    ("killed", ENDS),
    ("closed", ENDS),
    ("closed_pdo", STAYS),
    ("file", STAYS),
    ("file_broken", STAYS),
    ("file_thrown", STAYS),
    ("exit", STAYS),
    ("fatal", STAYS),
    // It is killed.
    ("memory", ENDS),
    ("raw", ENDS),
    ("program", STAYS),
    // PHP 8.2 forks, and the child has the connection until it runs another program.
    ("child", EITHER),
];

/// A database, and the server for so many workers.
fn with_database(test: impl Fn(&Database, &dyn Fn(usize) -> Setup)) {
    let database = Database::start();
    database.rows(
        "",
        "create database one; create database two; create table one.rows (n int) engine=InnoDB; create table one.loaded (n int); \
         create table one.numbered (n int auto_increment primary key); create user other@localhost identified by 'pw'; \
         grant all on *.* to other@localhost; create role helpers; grant helpers to app@localhost",
    );
    let environment = database.environment();
    let password = &environment.iter().find(|(name, _)| *name == "WP_DB_PASSWORD").unwrap().1;
    test(&database, &|workers| {
        let setup = keeping_in(workers, 4, BOOT, CASES).env("PASSWORD", password);
        setup.env("SOCKET", database.socket().to_str().unwrap())
    });
}

/// Whatever a visitor leaves in its session, the next one finds the session as the hook has left it.
#[test]
fn the_next_visitor_finds_what_the_hook_has_left() {
    with_database(|database, setup| {
        rewind(|| setup(1), |lane| nothing_is_carried_over(lane, WAYS));
        assert_eq!(database.rows("one", "select count(*), sum(n) from loaded where n in (7, 8)"), "2\t15\n");
        let others = "select count(*) from loaded where n not in (1, 7, 8)";
        assert_eq!(database.rows("one", others), "0\n", "a reset was loaded as a row");
    });
}

#[test]
fn four_visitors_carry_nothing_over() {
    with_database(|_, setup| rewind(|| setup(2), |lane| four_visitors(lane, WAYS)));
}
