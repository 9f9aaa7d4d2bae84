//! Databases and other servers behind requests of a snapshot: connected per request, ended with it, seen by no other.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use tests::backends::Redis;
use tests::peer::Database;
use tests::snapshot::{always_both, snapshot};
use tests::wait_until;

const BOOT: &str = r#"
mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);
function database(string $prefix = ''): mysqli { return new mysqli($prefix . 'localhost', 'app', getenv('PASSWORD'), null, 0, getenv('SOCKET')); }
function pdo(array $options = []): PDO { return new PDO('mysql:unix_socket=' . getenv('SOCKET'), 'app', getenv('PASSWORD'), $options); }
// Used by the boot, and closed: the libraries have their state.
$database = database();
$database->query('select 1')->fetch_all();
$database->close();
$pdo = pdo(); $pdo->query('select 1')->fetchAll(); $pdo = null;
unset($database, $pdo);
// Made by the boot, connected by the request that needs it.
class Lazy extends PDO { function __construct() {} function open(): void { parent::__construct('mysql:unix_socket=' . getenv('SOCKET'), 'app', getenv('PASSWORD')); } }
$lazy = [new Lazy, mysqli_init()];
"#;

const CASES: &str = r#"
case 'setup': $database = database(); $database->query('create or replace database test'); $database->query('create table test.rows (n int) engine=InnoDB'); echo 'ok'; break;
case 'transaction': $database = database(); $database->select_db('test'); $database->begin_transaction(); $database->query('insert into `rows` values (1)'); echo $database->affected_rows; $statement = $database->prepare('select * from `rows` where n = ?'); break;
case 'committed': $database = database(); $database->query('insert into test.rows values (2)'); echo 'ok'; break;
case 'count': echo database()->query('select count(*) from test.rows where n = ' . (int) $_GET['n'])->fetch_row()[0]; break;
case 'pdo': $pdo = pdo(); $pdo->exec('use test'); $pdo->beginTransaction(); $pdo->exec('insert into `rows` values (1)'); $statement = $pdo->prepare('select 1'); $statement->execute(); echo 'ok'; break;
case 'unbuffered': $database = database(); $result = $database->query('select seq from test.seq_1_to_5000', MYSQLI_USE_RESULT); echo $result->fetch_row()[0]; break;
case 'variable': $database = database(); echo json_encode($database->query('select @left, get_lock("left", 0)')->fetch_row()); $database->query('set @left = 1'); $database->query('create temporary table test.own (n int)'); break;
case 'persistent': $database = database('p:'); echo json_encode($database->query('select @left')->fetch_row()); $database->query('set @left = 1'); break;
case 'persistent_pdo': $pdo = pdo([PDO::ATTR_PERSISTENT => true]); echo json_encode($pdo->query('select @left')->fetch(PDO::FETCH_NUM)); $pdo->exec('set @left = 1'); break;
case 'lazy': $lazy[0]->open(); echo json_encode($lazy[0]->query('select @left')->fetch(PDO::FETCH_NUM)); $lazy[0]->exec('set @left = 1'); $lazy[1]->real_connect('localhost', 'app', getenv('PASSWORD'), null, 0, getenv('SOCKET')); echo json_encode($lazy[1]->query('select @left')->fetch_row()); $lazy[1]->query('set @left = 1'); break;
case 'exit': $database = database(); $database->begin_transaction(); $database->query('insert into test.rows values (1)'); exit('ok');
case 'fatal': $database = database(); $database->begin_transaction(); nowhere();
"#;

/// Not of the snapshot's lane, so that it sees only what the others left.
const STATUS: &str = "<?php $database = new mysqli('localhost', 'app', getenv('PASSWORD'), null, 0, getenv('SOCKET'));
foreach ($database->query(\"show global status where variable_name in ('Aborted_clients', 'Threads_connected', 'Prepared_stmt_count')\") as $row) echo $row['Value'], ' ';
$database->close();";

/// Database connections of a request end with it, with or without persistence, and no data is lost.
#[test]
fn connections_are_closed_and_nothing_is_lost() {
    let database = Database::start();
    let environment = database.environment();
    let value = |name: &str| environment.iter().find(|(known, _)| *known == name).unwrap().1.clone();
    let socket = value("WP_DB_HOST").split_once(':').unwrap().1.to_owned();
    always_both(
        || {
            let setup = snapshot(BOOT, CASES).file("status.php", STATUS).env("PASSWORD", &value("WP_DB_PASSWORD"));
            setup.env("SOCKET", &socket).ini("display_errors", "0")
        },
        |lane| {
            assert_eq!(lane.text("setup"), "ok");
            let status = || -> Vec<u64> {
                lane.get("/status.php").text().split_whitespace().map(|number| number.parse().unwrap()).collect()
            };
            let aborted = status()[0];
            for _ in 0..25 {
                assert_eq!(lane.text("transaction"), "1");
                assert_eq!(lane.text("committed"), "ok");
                assert_eq!(lane.text("pdo"), "ok");
                assert_eq!(lane.text("lazy"), "[null][null]");
                assert_eq!(lane.text("unbuffered"), "1");
                wait_until("the lock is free", 5, || lane.text("variable") == "[null,\"1\"]");
                assert_eq!(lane.text("exit"), "ok");
                assert_eq!(lane.get("/?do=fatal").status, 500);
            }
            assert_eq!(lane.text("count&n=1"), "0", "transactions that were left open are rolled back");
            assert_eq!(lane.text("count&n=2"), "25");
            wait_until("all connections are closed", 10, || status()[2] == 1);
            let now = status();
            assert_eq!((now[0], now[1]), (aborted, 0), "{}: aborted connections, prepared statements", lane.isolation);
            // A persistent connection ends with its request, and gives the next one nothing.
            for _ in 0..25 {
                assert_eq!(lane.text("persistent"), "[null]");
                assert_eq!(lane.text("persistent_pdo"), "[null]");
            }
            wait_until("all connections are closed", 10, || status()[2] == 1);
            assert_eq!(status()[0], aborted, "{}: persistent connections are aborted", lane.isolation);
        },
    );
}

/// A request's state in a Redis connection reaches no other request.
#[test]
fn redis_forgets_what_a_request_left() {
    let redis = Redis::start(&[]);
    let socket = redis.socket();
    let clients = || {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.write_all(b"CLIENT LIST\r\nQUIT\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text.matches(" addr=").count()
    };
    const CASES: &str = r#"
case 'left': $redis = redis(); if ($_GET['n'] === '1') $redis->flushAll(); echo json_encode([$redis->getDBNum(), $redis->incr('count')]); $redis->select(3); $redis->set('left', 'in 3'); $redis->multi(); $redis->set('never', 1); break;
case 'pipeline': $redis = redis(); echo json_encode([$redis->get('left'), $redis->get('never')]); $redis->pipeline(); $redis->set('never', 1); break;
case 'persistent': $redis = new Redis; $redis->pconnect(getenv('SOCKET')); echo json_encode($redis->get('left')); $redis->select(3); break;
"#;
    always_both(
        || {
            let boot = "function redis(): Redis { $redis = new Redis; $redis->connect(getenv('SOCKET')); return $redis; } $redis = redis(); $redis->ping(); $redis->close(); unset($redis);";
            snapshot(boot, CASES).env("SOCKET", socket.to_str().unwrap())
        },
        |lane| {
            for number in 1..=25 {
                assert_eq!(lane.text(&format!("left&n={number}")), format!("[0,{number}]"));
                assert_eq!(lane.text("pipeline"), "[false,false]");
                assert_eq!(lane.text("persistent"), "false");
            }
            wait_until("all connections are closed", 10, || clients() == 1);
        },
    );
}
