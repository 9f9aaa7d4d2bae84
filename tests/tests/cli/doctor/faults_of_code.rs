//! Faults in scripts: versions of PHP, worker scripts, snapshots.

use super::{Fault, Site, fault};

/// What is wrong under every version that Reprise runs. The functions that are added come in versions after those.
const OF_VERSION: [Fault; 60] = [
    fault("version.removed", "error", "mysql.php", 2, "<?php\n$db = mysql_connect(\"a\", \"b\", \"c\");\n"),
    fault("version.removed", "error", "assoc.php", 2, "<?php\necho row($a, MYSQL_ASSOC);\n"),
    fault("version.removed", "error", "ereg.php", 2, "<?php\nif (ereg(\"^a\", $a)) {}\n"),
    fault("version.removed", "error", "split.php", 2, "<?php\n$a = split(\",\", \"a,b\");\n"),
    fault("version.removed", "error", "mcrypt.php", 2, "<?php\n$a = mcrypt_encrypt($c, $k, $t, $m);\n"),
    fault("version.removed", "error", "register.php", 2, "<?php\nsession_register(\"cart\");\n"),
    fault("version.removed", "error", "modifier.php", 2, "<?php\n$a = preg_replace('/(a)/ie', '$b', $c);\n"),
    fault(
        "version.removed",
        "error",
        "modifiers.php",
        2,
        "<?php\n$a = preg_replace(array('/a/', '#' . $x . '#Ue'), '$b', $c);\n",
    ),
    fault("version.removed", "error", "raw.php", 2, "<?php\n$a = $HTTP_RAW_POST_DATA;\n"),
    fault("version.removed", "error", "post_vars.php", 3, "<?php\nfunction f() {\n    global $HTTP_POST_VARS;\n}\n"),
    fault("version.removed", "error", "cart.php", 3, "<?php\nclass Cart {\n    function Cart() { $this->a = 1; }\n}\n"),
    fault("version.removed", "error", "autoload.php", 2, "<?php\nfunction __autoload($c) { require $c; }\n"),
    fault("version.removed", "error", "now.php", 2, "<?php\n$a = mktime();\n"),
    fault("version.removed", "error", "interbase.php", 2, "<?php\nibase_connect($a);\n"),
    fault("version.removed", "error", "sqlite.php", 2, "<?php\nsqlite_open($a);\n"),
    fault(
        "version.missing",
        "error",
        "function.php",
        3,
        "<?php\nclass A1 { function f() {\n    return shop_totals(1);\n} }\n",
    ),
    fault("version.missing", "error", "constant.php", 2, "<?php\nif (STORE_MODE == 1) {}\n"),
    fault("version.missing", "error", "bare.php", 2, "<?php\necho $row[title];\n"),
    fault("version.missing", "error", "class.php", 2, "<?php\n$a = new Shop_Basket();\n"),
    fault("version.missing", "error", "parent.php", 2, "<?php\nclass B1 extends Shop_Page {}\n"),
    fault("version.missing", "error", "module.inc", 2, "<?php\nshop_menu();\n"),
    fault("version.missing", "warning", "extension.php", 2, "<?php\nuopz_undefine(\"A\");\n"),
    fault("version.missing", "notice", "setting.php", 2, "<?php\nini_set('register_globals', '1');\n"),
    fault(
        "version.deprecated",
        "notice",
        "own_class.php",
        2,
        "<?php\nclass OwnClass { function f() { return get_class(); } }\n",
    ),
    fault("version.deprecated", "notice", "csv.php", 2, "<?php\nfputcsv($f, [1, [2, 3], g(4, 5)]);\n"),
    fault("version.deprecated", "notice", "parse.php", 2, "<?php\nstr_getcsv('a,b', );\n"),
    fault(
        "version.deprecated",
        "notice",
        "sessions.php",
        2,
        "<?php\nsession_set_save_handler('a', 'b', 'c', 'd', 'e', 'f');\n",
    ),
    fault("version.deprecated", "notice", "headers.php", 2, "<?php\n$h = $http_response_header;\n"),
    fault("version.syntax", "error", "broken.php", 3, "<?php\n$a = 1;\nif ($a { }\n"),
    fault(
        "version.syntax",
        "error",
        "twice.php",
        4,
        "<?php\nclass Twice {\n    function f() {}\n    function f() {}\n}\n",
    ),
    fault("version.syntax", "error", "reserved.php", 2, "<?php\nclass match {}\n"),
    fault("version.syntax", "error", "abstract.php", 2, "<?php\nclass A { abstract function f(); }\n"),
    fault("version.removed", "error", "each.php", 3, "<?php\n$a = [1];\nwhile (list($k, $v) = each($a)) {}\n"),
    fault("version.removed", "error", "lambda.php", 2, "<?php\n$f = create_function('$a', 'return $a;');\n"),
    fault("version.removed", "error", "money.php", 2, "<?php\necho money_format('%i', 1);\n"),
    fault("version.removed", "error", "quotes.php", 2, "<?php\nif (get_magic_quotes_gpc()) {}\n"),
    fault(
        "version.removed",
        "error",
        "real.php",
        4,
        "<?php\nnamespace A;\nfunction f($a) {\n    return \\is_real($a);\n}\n",
    ),
    fault("version.removed", "error", "idna.php", 2, "<?php\necho idn_to_ascii('a', 0, INTL_IDNA_VARIANT_2003);\n"),
    fault("version.removed", "error", "domclass.php", 2, "<?php\n$c = new DOMConfiguration();\n"),
    fault("version.added", "error", "first.php", 2, "<?php\necho array_first([1]);\n"),
    fault(
        "version.added",
        "error",
        "last.php",
        4,
        "<?php\nif (PHP_VERSION_ID >= 80400) {\n    // 8.4 does not have it yet.\n    echo array_last([1]);\n}\n",
    ),
    fault("version.added", "error", "uri.php", 3, "<?php\nuse Uri\\Rfc3986\\Uri;\n$u = new Uri('http://a.test/');\n"),
    fault("version.added", "error", "handler.php", 2, "<?php\n$h = get_error_handler();\n"),
    fault("version.deprecated", "notice", "time.php", 2, "<?php\necho strftime('%Y');\n"),
    fault("version.deprecated", "notice", "utf8.php", 2, "<?php\necho utf8_encode('a');\n"),
    fault("version.deprecated", "notice", "decode.php", 3, "<?php\n\necho utf8_decode('a');\n"),
    fault("version.deprecated", "notice", "lcg.php", 2, "<?php\necho lcg_value();\n"),
    fault("version.deprecated", "notice", "image.php", 2, "<?php\nimagedestroy($i);\n"),
    fault("version.deprecated", "notice", "curl.php", 2, "<?php\ncurl_close($c);\n"),
    fault("version.deprecated", "notice", "integer.php", 2, "<?php\necho is_integer(1);\n"),
    fault("version.deprecated", "notice", "filter.php", 2, "<?php\necho filter_var('a', FILTER_SANITIZE_STRING);\n"),
    fault("version.deprecated", "notice", "mtrand.php", 2, "<?php\nmt_srand(1, MT_RAND_PHP);\n"),
    fault("version.deprecated", "notice", "pdo.php", 2, "<?php\n$o = [PDO::MYSQL_ATTR_INIT_COMMAND => 'a'];\n"),
    fault("version.deprecated", "notice", "reflection.php", 2, "<?php\n$p->setAccessible(true);\n"),
    fault("version.deprecated", "notice", "braces.php", 3, "<?php\n$a = 1;\necho \"${a}\";\n"),
    fault("version.deprecated", "notice", "nullable.php", 2, "<?php\nfunction f(Countable $a = null) {}\n"),
    fault("version.deprecated", "notice", "cast.php", 2, "<?php\n$a = (boolean) 1;\n"),
    fault("version.deprecated", "notice", "shell.php", 2, "<?php\n$a = `true`;\n"),
    fault("version.deprecated", "notice", "asserts.php", 2, "<?php\nassert_options(1);\n"),
    fault("version.compiler", "notice", "optional.php", 2, "<?php\nfunction f($a = 1, $b) {}\n"),
];

/// The same names, where nothing is wrong: guarded, declared by the tree, methods, in strings and comments.
const RIGHT: [(&str, &str); 30] = [
    ("caught.php", "<?php\ntry { mysql_connect(); shop_pay(); new Shop_Payment; } catch (Exception | Error $e) {}\n"),
    (
        "asks.php",
        "<?php\nif (!function_exists('shop_skin')) { die; }\nif (extension_loaded('mssql')) { mssql_query(1); echo MSSQL_NUM; }\n",
    ),
    ("asked_elsewhere.php", "<?php\nshop_skin();\n"),
    (
        "define.php",
        "<?php\ndefine('SHOP_LEVEL', 3); define('IMAGETYPE_SVG', 'svg');\ndefine('SHOP_' . 'IS_' . $n, 1);\nconst OTHER_LEVEL = 4;\n\\define(\"SHOPPING_$n\", 1);\n",
    ),
    ("defined.php", "<?php\necho SHOP_LEVEL + OTHER_LEVEL, IMAGETYPE_SVG, [SHOP_LEVEL => SHOPPING_BAG][0];\n"),
    ("alias.php", "<?php\nclass_alias('File', 'Shop_File');\nnew Shop_File;\n"),
    ("installer.php", "<?php\n$text = 'define(\\'SHOP_INSTALLED\\', true); function shop_installed($a) {}';\n"),
    ("installed.php", "<?php\nif (SHOP_INSTALLED) { shop_installed(1); }\n"),
    ("functions.inc", "<?php\nfunction shop_from_inc() {}\n"),
    ("module.install", "<?php\nshop_from_inc();\n"),
    (
        "constructors.php",
        "<?php\nclass P1 { function __construct() {} function P1() {} }\nclass P2 { static function P2() {} }\nclass P3 { function P3() { return 1; } }\nclass P4 { function p4() {} }\ninterface P5 { function P5(); }\n",
    ),
    ("space.php", "<?php\nnamespace Shop;\nclass P6 { function P6() {} }\n"),
    (
        "patterns.php",
        "<?php\npreg_replace('/e/', 'e', $a);\npreg_replace('(e)i', 'e', $a);\npreg_replace($p . 'e', '/e', $a);\n",
    ),
    ("old.php", "<?php\n$d = isset($HTTP_RAW_POST_DATA) ? $HTTP_RAW_POST_DATA : '';\n"),
    (
        "words.php",
        "<?php\necho \"$a[title] {$a['b']}\", <<<X\n$a[title]\nX;\nenum Suit: string { case Hearts = 'h'; case Spades = 's'; }\nfunction types(A2|B2|null $a, ?C2 $b = null, D2&E2 ...$c): F2|G2 {}\nabstract class H2 extends File implements \\Countable, \\Stringable { public A2|B2|C2 $d; use T2, U2; #[I2, J2(1)] abstract function k(): L2; }\ncall(name: 1, other: $a ? PHP_EOL : PHP_OS);\ntrait T2 {}\ntrait U2 {}\nfunction call() {}\ntry {} catch (M2 | N2 $e) {}\ngoto end;\nend:\n",
    ),
    (
        "arguments.php",
        "<?php\nget_class($a);\nfputcsv($f, [1, 2], ',', '\"', '');\nstr_getcsv('a', escape: '');\nstr_getcsv(...$a);\n$f = fgetcsv(...);\nget_defined_functions();\nsession_set_save_handler($h, true);\n",
    ),
    ("file.php", "<?php\nclass File {}\nfunction compile() {}\n"),
    ("local_file.php", "<?php\nclass LocalFile extends File {}\n"),
    ("twin.php", "<?php\nfunction twin() {}\n"),
    ("other_twin.php", "<?php\nfunction twin() {}\n"),
    (
        "asked.php",
        "<?php\nif (function_exists('each')) { each($a); }\nif (\\function_exists('array_first')) { array_first($a); }\n",
    ),
    ("version_id.php", "<?php\nfunction f($a) {\n    if (PHP_VERSION_ID < 80000) { return each($a); }\n}\n"),
    ("compare.php", "<?php\nif (version_compare(PHP_VERSION, '8.5.0', '>=')) { echo array_first([1]); }\n"),
    (
        "early.php",
        "<?php\nfunction g($a) {\n    if (PHP_VERSION_ID < 80500) { return null; }\n    return array_last($a);\n}\n",
    ),
    (
        "polyfill.php",
        "<?php\nif (!function_exists('get_exception_handler')) {\n    function get_exception_handler() { return null; }\n}\n",
    ),
    ("uses_polyfill.php", "<?php\n$h = get_exception_handler();\n"),
    (
        "methods.php",
        "<?php\nclass Own { function each() {} static function create_function() {} }\n(new Own)->each();\nOwn::create_function();\n",
    ),
    (
        "own.php",
        "<?php\nnamespace Own;\nuse function Other\\strftime;\nstrftime('a');\nclass PDO { const MYSQL_ATTR_INIT_COMMAND = 1; }\necho PDO::MYSQL_ATTR_INIT_COMMAND;\n",
    ),
    (
        "texts.php",
        "<?php\n// each($a); create_function();\n$a = 'utf8_encode(1)';\n$b = \"`{$a}` each()\";\n$c = <<<X\n{$a}} each( ` }\nX;\n",
    ),
    (
        "constants.php",
        "<?php\nif (defined('FILTER_SANITIZE_STRING')) { echo FILTER_SANITIZE_STRING; }\nfunction h(?int $a = null, int|null $b = null, mixed $c = null) {}\n",
    ),
];

/// What a worker script keeps, and what a snapshot refuses or repeats.
const OF_WORKER: [Fault; 21] = [
    fault("worker.exit", "warning", "leave.php", 3, "<?php\nfunction leave() {\n    exit(1);\n}\n"),
    fault("worker.exit", "warning", "death.php", 2, "<?php\ndefined('A') or die('no');\n"),
    fault(
        "worker.static",
        "warning",
        "count.php",
        3,
        "<?php\nfunction counted() {\n    static $count = 0;\n    return ++$count;\n}\n",
    ),
    fault(
        "worker.static-property",
        "warning",
        "registry.php",
        4,
        "<?php\nclass Registry {\n    private static $all = [];\n    static function add($a) { self::$all[] = $a; }\n}\n",
    ),
    fault(
        "worker.static-property",
        "warning",
        "instance.php",
        5,
        "<?php\nclass Single {\n    static $instance;\n    static function get() {\n        return static::$instance ??= new self;\n    }\n}\n",
    ),
    fault(
        "worker.global",
        "warning",
        "global.php",
        3,
        "<?php\nfunction user() {\n    global $user;\n    return $user;\n}\n",
    ),
    fault("worker.global", "warning", "globals.php", 2, "<?php\nfunction setUser($u) { $GLOBALS['user'] = $u; }\n"),
    fault(
        "worker.handler",
        "warning",
        "error_handler.php",
        2,
        "<?php\nfunction quiet() { set_error_handler(fn () => true); }\n",
    ),
    fault("worker.handler", "warning", "locale.php", 2, "<?php\nfunction german() { setlocale(LC_ALL, 'de_DE'); }\n"),
    fault("worker.handler", "warning", "zone.php", 2, "<?php\nfunction zone() { date_default_timezone_set('UTC'); }\n"),
    fault(
        "worker.handler",
        "warning",
        "autoload.php",
        2,
        "<?php\nfunction more() { spl_autoload_register(fn () => null); }\n",
    ),
    fault(
        "worker.handler",
        "warning",
        "loader.php",
        2,
        "<?php\nfunction entities() { libxml_set_external_entity_loader(fn () => null); }\n",
    ),
    fault(
        "snapshot.held",
        "warning",
        "public/database.php",
        2,
        "<?php\n$db = new PDO('sqlite::memory:');\nreprise_snapshot();\n",
    ),
    fault(
        "snapshot.held",
        "warning",
        "public/log.php",
        2,
        "<?php\n$log = fopen('/tmp/a.log', 'a');\nreprise_snapshot();\n",
    ),
    fault("snapshot.held", "warning", "public/session.php", 3, "<?php\n\nsession_start();\nreprise_snapshot();\n"),
    fault(
        "snapshot.captured",
        "warning",
        "public/time.php",
        2,
        "<?php\ndefine('NOW', $_SERVER['REQUEST_TIME']);\nreprise_snapshot();\n",
    ),
    fault(
        "snapshot.captured",
        "warning",
        "public/client.php",
        3,
        "<?php\nclass A { static $ip; }\nA::$ip = trim($_SERVER['REMOTE_ADDR']);\nwhile (reprise_handle_request('f')) {}\n",
    ),
    fault(
        "snapshot.captured",
        "warning",
        "public/cookie.php",
        2,
        "<?php\nif (true) { $user = $_COOKIE['user'] ?? null; }\nreprise_snapshot();\n",
    ),
    fault("snapshot.random", "warning", "public/seed.php", 2, "<?php\nmt_srand(42);\nreprise_snapshot();\n"),
    fault(
        "snapshot.random",
        "warning",
        "public/dice.php",
        3,
        "<?php\nuse Random\\Randomizer;\n$dice = new Randomizer();\nreprise_snapshot();\n",
    ),
    fault(
        "snapshot.random",
        "notice",
        "engine.php",
        2,
        "<?php\nfunction engine() { return new \\Random\\Engine\\Mt19937(7); }\n",
    ),
];

/// Faults of versions are found, each at its line, and nothing that is right.
#[test]
fn faults_of_versions_are_found() {
    let site = Site::new();
    OF_VERSION.iter().for_each(|fault| _ = site.write(&format!("src/{}", fault.file), fault.text));
    RIGHT.iter().for_each(|(name, text)| _ = site.write(&format!("right/{name}"), text));
    let report = site.look(&["--only", "version"]);
    assert_eq!(report.code, 4, "errors were found");
    report.has_all(&OF_VERSION);
    let wrong: Vec<_> = report
        .findings()
        .iter()
        .filter(|finding| {
            let places = finding["evidence"].as_array().map_or(&[][..], Vec::as_slice);
            places.iter().any(|place| place["file"].as_str().is_some_and(|file| file.starts_with("right/")))
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    // Versions that are not here are said to be unchecked.
    let unchecked = report.json["unchecked"].as_array().expect("a list");
    assert!(unchecked.iter().any(|version| version == "8.6"), "{unchecked:?}");
    let compiled = report.json["applications"][0]["compiled_by"].as_array().expect("a list");
    assert!(
        !compiled.is_empty() && report.json["applications"][0]["scripts"] == 1 + OF_VERSION.len() + RIGHT.len(),
        "{compiled:?}"
    );
}

/// The state that a loop keeps is a warning where a loop runs, and what the boot of a snapshot may not hold always is.
#[test]
fn faults_of_workers_are_found() {
    let site = Site::new();
    site.write("public/index.php", "<?php\nwhile (reprise_handle_request(fn () => print 'a')) {}\n");
    OF_WORKER.iter().for_each(|fault| _ = site.write(fault.file, fault.text));
    site.write("back.php", "<?php\nfunction b() { set_error_handler('f'); restore_error_handler(); }\n");
    site.write("below.php", "<?php\nreprise_snapshot();\n$db = new PDO('sqlite::memory:');\nmt_srand();\n");
    site.write(
        "fresh.php",
        "<?php\n$f = function () { $now = $_SERVER['REQUEST_TIME']; };\n$root = $_SERVER['DOCUMENT_ROOT'];\n$_SERVER['CAME'] = $_SERVER['REQUEST_TIME'];\n\
         echo $_COOKIE['a'] ?? '';\nreprise_snapshot();\n$now = $_SERVER['REQUEST_TIME'];\n",
    );
    site.write("plain.php", "<?php\n$now = $_SERVER['REQUEST_TIME'];\n");
    let report = site.look(&["--only", "worker"]);
    report.has_all(&OF_WORKER);
    assert_eq!(report.code, 0, "nothing of this is an error");
    let has = |id, severity, file| report.has(&fault(id, severity, file, 0, ""));
    assert!(!has("worker.handler", "warning", "back.php"), "a handler that is put back stays nowhere");
    assert!(!has("snapshot.held", "warning", "below.php") && !has("snapshot.random", "warning", "below.php"));
    assert!(["fresh.php", "plain.php"].iter().all(|file| !has("snapshot.captured", "warning", file)));

    // Without a loop the same is worth a notice.
    site.write("public/index.php", "<?php\necho 1;\n");
    let report = site.look(&["--only", "worker"]);
    assert!(report.ids("warning").iter().all(|id| id.starts_with("snapshot.")), "{:?}", report.ids("warning"));
    assert!(report.has(&fault("worker.exit", "notice", "leave.php", 3, "")));
}

/// Tests are wrong on purpose, and polyfills of libraries declare what they use.
#[test]
fn tests_are_no_errors() {
    let site = Site::new();
    site.write("vendor/a/tests/fixtures/broken.php", "<?php\n$a = ;\n");
    site.write("vendor/a/tests/Each.php", "<?php\neach($a);\n");
    let report = site.look(&["--only", "version"]);
    assert_eq!((report.code, report.ids("error").len()), (0, 0));
    assert_eq!(report.of("version.syntax").len(), 1);
}
