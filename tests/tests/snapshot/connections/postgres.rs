//! PostgreSQL, by pg_connect() and by PDO.

use tests::Setup;
use tests::backends::Postgres;
use tests::snapshot::rewind;

use crate::connections::{ENDS, Left, STAYS, four_visitors, keeping_in, nothing_is_carried_over};

const BOOT: &str = r#"
function by_pgsql() { return pg_connect('host=' . getenv('PG_HOST') . ' port=' . getenv('PG_PORT') . ' user=app dbname=postgres'); }
function by_pdo(): PDO { return new PDO('pgsql:host=127.0.0.1;port=' . getenv('PG_PORT') . ';dbname=postgres', 'app'); }
pg_close(by_pgsql());
by_pdo();
reprise_after_fork(function () {
    global $pg, $pdo;
    $pg = by_pgsql();
    pg_query($pg, 'set search_path to one, public');
    $pdo = by_pdo();
    $pdo->prepare("set time zone 'Asia/Tokyo'")->execute();
    $pdo->exec("set names 'UTF8'");
});
function state(callable $row, callable $fails): array {
    return [
        $row("select current_user, session_user, current_setting('role'), current_setting('search_path'), current_setting('TimeZone'), current_setting('client_encoding'), current_setting('transaction_isolation'), current_setting('default_transaction_read_only'), current_setting('statement_timeout'), coalesce(current_setting('my.gone', true), ''), pg_current_xact_id_if_assigned(), (select count(*) from pg_proc where proname = 'own' and pronamespace = pg_my_temp_schema())"),
        $row('select (select count(*) from pg_prepared_statements), (select count(*) from pg_cursors), (select count(*) from pg_listening_channels()), (select count(*) from pg_locks where locktype = \'advisory\' and pid = pg_backend_pid()), (select count(*) from one.rows where n = 1)'),
        $row('select random() = ' . (float) @file_get_contents(getenv('PLACE') . '/random')),
        array_map($fails, ['select * from own', 'execute left_one', "select currval('one.numbers')", 'rollback to left_point']),
    ];
}
"#;

const CASES: &str = r#"
case 'count': echo 2; break;
case 'look':
    echo pg_fetch_result(pg_query($pg, 'select pg_backend_pid()'), 0), '/', $pdo->query('select pg_backend_pid()')->fetchColumn(), ' ';
    echo json_encode(state(fn ($sql) => pg_fetch_row(pg_query($pg, $sql)), fn ($sql) => (bool) @pg_query($pg, $sql)));
    echo json_encode(state(fn ($sql) => $pdo->query($sql)->fetch(PDO::FETCH_NUM), function ($sql) use ($pdo) { try { $pdo->query($sql); return 'ok'; } catch (PDOException $e) { return $e->getCode(); } }));
    break;
case 'leave':
    $say = function (string ...$all) use ($pg, $pdo) { foreach ($all as $sql) { pg_query($pg, $sql); $pdo->exec($sql); } };
    switch ($_GET['how']) {
    case 'transaction': $say('begin', 'insert into one.rows values (1)', 'savepoint left_point'); break;
    case 'pdo_transaction': $pdo->beginTransaction(); $pdo->exec('insert into one.rows values (1)'); break;
    case 'failed_transaction': pg_query($pg, 'begin'); @pg_query($pg, 'nonsense'); $pdo->beginTransaction(); try { $pdo->exec('nonsense'); } catch (PDOException) {} break;
    case 'temporary': $say('create temporary table own (n int)', 'create function pg_temp.own() returns int language sql as $$select 1$$'); break;
    case 'settings': $say("set search_path to pg_catalog", "set time zone 'UTC'", 'set statement_timeout = 5000', "set my.gone = 'secret'", 'set default_transaction_read_only = on', 'set session characteristics as transaction isolation level serializable'); break;
    case 'names': pg_set_client_encoding($pg, 'LATIN1'); $pdo->exec("set names 'LATIN1'"); break;
    case 'role': $say('set role other'); break;
    case 'authorization': $say('set session authorization other'); break;
    case 'listen': $say('listen left_channel'); break;
    case 'notified': pg_query($pg, 'listen left_channel'); pg_query($pg, 'notify left_channel'); break;
    case 'lock': pg_query($pg, 'select pg_advisory_lock(5)'); $pdo->exec('select pg_advisory_lock(6)'); break;
    case 'statement': $say('prepare left_one as select 1'); pg_prepare($pg, 'left_two', 'select $1::int'); $GLOBALS['t'] = $pdo->prepare('select 1'); $GLOBALS['t']->execute(); break;
    case 'cursor': $say('begin', 'declare left_cursor cursor for select 1', 'declare left_held cursor with hold for select 1', 'fetch left_cursor'); break;
    case 'held_cursor': $say('begin', 'declare left_held cursor with hold for select 1', 'commit'); break;
    case 'sequence': $say("select nextval('one.numbers')"); break;
    case 'random': $say('select setseed(0.5)'); file_put_contents(getenv('PLACE') . '/random', getenv('RANDOM_OF_HALF')); break;
    case 'copy': try { $pdo->exec('copy one.rows from stdin'); } catch (PDOException $e) { echo $e->getMessage(); } break;
    case 'copied': pg_copy_from($pg, 'one.rows', ["2\n"]); break;
    case 'copy_out': try { $pdo->exec('copy one.rows to stdout'); } catch (PDOException $e) { echo $e->getMessage(); } break;
    case 'async': pg_send_query($pg, 'select pg_sleep(0.3)'); break;
    case 'async_long': pg_send_query($pg, 'select pg_sleep(4)'); break;
    case 'async_update': pg_send_query($pg, 'insert into one.rows values (2)'); break;
    case 'object': pg_query($pg, 'begin'); $o = pg_lo_create($pg); $GLOBALS['o'] = pg_lo_open($pg, $o, 'w'); pg_lo_write($GLOBALS['o'], 'secret'); break;
    case 'slot': pg_query($pg, "select pg_create_physical_replication_slot('left_slot', false, true)"); break;
    case 'wrapped': $GLOBALS['pdo'] = new ArrayObject([$pdo]); break;
    case 'error': @pg_query($pg, 'nonsense'); break;
    case 'killed': @pg_query($pg, 'select pg_terminate_backend(pg_backend_pid())'); break;
    case 'closed': pg_close($pg); break;
    case 'closed_pdo': $pdo = null; unset($GLOBALS['pdo']); break;
    case 'exit': $say('begin', 'insert into one.rows values (1)'); exit('exit');
    case 'fatal': $say('begin', 'insert into one.rows values (1)'); nowhere();
    case 'language': pg_query($pg, 'create language left_language handler plpgsql_call_handler'); break;
    }
    break;
case 'sleep': pg_query($pg, 'select pg_sleep(0)'); break;
"#;

/// How a visitor leaves a session, and whether its connection stays.
const WAYS: Left<'static> = &[
    ("transaction", STAYS),
    ("pdo_transaction", STAYS),
    ("failed_transaction", STAYS),
    ("temporary", STAYS),
    ("settings", STAYS),
    ("names", STAYS),
    ("role", STAYS),
    ("authorization", STAYS),
    ("listen", STAYS),
    ("notified", STAYS),
    ("lock", STAYS),
    ("statement", STAYS),
    ("cursor", STAYS),
    ("held_cursor", STAYS),
    ("sequence", STAYS),
    ("random", STAYS),
    ("copy", ENDS),
    ("copied", STAYS),
    ("copy_out", STAYS),
    ("async", ENDS),
    // Longer than a reset waits for its replies.
    ("async_long", ENDS),
    ("async_update", ENDS),
    ("object", STAYS),
    ("slot", ENDS),
    ("wrapped", STAYS),
    ("error", STAYS),
    ("killed", ENDS),
    ("closed", ENDS),
    ("closed_pdo", STAYS),
    ("exit", STAYS),
    ("fatal", STAYS),
];

/// A PostgreSQL, and the server for so many workers.
fn with_postgres(test: impl Fn(&dyn Fn(usize) -> Setup)) {
    let postgres = Postgres::start(&[]);
    postgres.say("create schema one; create table one.rows (n int); create sequence one.numbers; create role other; grant all on schema one to other; grant all on one.rows to other");
    let random = postgres.say("select setseed(0.5); select random()");
    let random = random.lines().last().unwrap_or_default();
    test(&|workers| {
        let setup = keeping_in(workers, 4, BOOT, CASES).env("PG_HOST", &postgres.host()).env("RANDOM_OF_HALF", random);
        setup.env("PG_PORT", &postgres.port.to_string())
    });
    assert!(
        !postgres.log().contains("there is no transaction in progress"),
        "resets fill the server's log:\n{}",
        postgres.log()
    );
}

/// Whatever a visitor leaves in its session, the next one finds the session as the hook has left it.
#[test]
fn the_next_visitor_finds_what_the_hook_has_left() {
    with_postgres(|setup| {
        rewind(
            || setup(1),
            |lane| {
                nothing_is_carried_over(lane, WAYS);
                // From here on it has a language whose variables could outlive a reset: connections are not kept, and requests open their own.
                assert_eq!(lane.get("/?do=leave&how=language").status, 200);
                tests::wait_until("connections are kept no longer", 20, || lane.info().text("connections") == "0");
                tests::wait_until("the log says why", 5, || {
                    lane.log().contains("an extension or a procedural language")
                });
            },
        )
    });
}

#[test]
fn four_visitors_carry_nothing_over() {
    with_postgres(|setup| rewind(|| setup(2), |lane| four_visitors(lane, WAYS)));
}
