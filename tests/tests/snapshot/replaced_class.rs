//! A class that takes another's name in a boot: reprise_replace_class().

use tests::snapshot::{both, snapshot};

/// Code that only requests run.
const SAID: &str = r#"<?php
class Grandchild extends Plain {}
class Other { public static function make() { return Plain::class . (new Plain)::class; } }
return [Plain::name(), \Plain::name(), PLAIN::name(), call_user_func("Plain::name"), Grandchild::name(), get_parent_class("Grandchild"), Other::make(),
    Plain::$count, (new By) instanceof Plain];
"#;

/// `$early()` has run before the name is taken.
const BOOT: &str = r#"
class Plain { public static int $count = 0; public static function name() { static::$count++; return 'plain'; } }
$early = static fn () => Plain::name();
class By extends Plain { public static function name() { return 'by ' . parent::name(); } }
interface Face {} trait Some {} enum Suit { case One; } class Unrelated {} final class Last extends Plain {} class_alias('Unrelated', 'Alias');
class Root { public static function name() { return 'root'; } }
spl_autoload_register(static function (string $name) {
    // The table of classes moves while both are looked up.
    for ($i = 0; $name === 'Loaded' && $i < 3000; $i++) eval("class Filler$i {}");
    if ($name === 'Loaded') eval('class Loaded extends Root { public static function name() { return "loaded " . parent::name(); } }');
});
reprise_replace_class('Root', 'Loaded');
$was = [$early(), Plain::name()];
$errors = [];
foreach ([['None', 'By'], ['Plain', 'None'], ['Face', 'By'], ['Some', 'By'], ['Suit', 'By'], ['ArrayObject', 'By'], ['Plain', 'Unrelated'], ['By', 'Plain'], ['Plain', 'Plain'], ['Alias', 'By'], ['Plain', 'Last']] as [$class, $by]) {
    try { reprise_replace_class($class, $by); $errors[] = 'none'; } catch (ValueError $error) { $errors[] = $error->getMessage(); }
}
reprise_replace_class('\PLAIN', 'By');
try { reprise_replace_class('Plain', 'By'); $errors[] = 'none'; } catch (ValueError $error) { $errors[] = $error->getMessage(); }
// A child ends as any script does, with its classes.
if (($child = pcntl_fork()) === 0) exit(7);
pcntl_waitpid($child, $ended);
"#;

const CASES: &str = r"
case 'errors': echo implode(PHP_EOL, $GLOBALS['errors']); break;
case 'said': echo json_encode([$GLOBALS['was'], require __DIR__ . '/said.php', $GLOBALS['early'](), Plain::$count, By::$count]); break;
case 'loaded': echo Root::name(), ' ', pcntl_wifexited($GLOBALS['ended']) ? pcntl_wexitstatus($GLOBALS['ended']) : 'killed'; break;
case 'late': try { reprise_replace_class('Plain', 'By'); echo 'none'; } catch (Error $error) { echo $error->getMessage(); } break;
case 'ends': echo Plain::name(); exit;
case 'fails': echo Plain::name(); nowhere();
";

const PLACES: [&str; 12] = [
    "#1 ($class) must be a class of the application by its own name, None given",
    "#2 ($by) must be a class of the application by its own name, None given",
    "#1 ($class) must be a class of the application by its own name, Face given",
    "#1 ($class) must be a class of the application by its own name, Some given",
    "#1 ($class) must be a class of the application by its own name, Suit given",
    "#1 ($class) must be a class of the application by its own name, ArrayObject given",
    "#2 ($by) must be a class that extends Plain, Unrelated given",
    "#2 ($by) must be a class that extends By, Plain given",
    "#2 ($by) must be a class that extends Plain, Plain given",
    "#1 ($class) must be a class of the application by its own name, Alias given",
    "#2 ($by) must not be final, as other classes may extend Plain",
    "#1 ($class) must be a class of the application by its own name, Plain given",
];

#[test]
fn a_name_means_the_class_that_took_it() {
    replaced("1");
}

/// Classes are the process' own then, and counted.
#[test]
fn without_opcache_too() {
    replaced("0");
}

fn replaced(opcache: &str) {
    both(
        || snapshot(BOOT, CASES).file("said.php", SAID).ini("opcache.enable", opcache),
        |lane| {
            let errors = lane.same("errors", 2);
            let lines: Vec<&str> = errors.lines().collect();
            assert_eq!(lines.len(), PLACES.len(), "{errors}");
            for (line, expected) in lines.iter().zip(PLACES) {
                assert_eq!(*line, format!("reprise_replace_class(): Argument {expected}"));
            }
            // What has run before the call keeps its class; statics are shared, and those of each request begin as the boot left them.
            let said = lane.same("said", 5);
            let by = r#""by plain","by plain","by plain","by plain","by plain""#;
            assert_eq!(said, format!(r#"[["plain","plain"],[{by},"By","PlainBy",7,true],"plain",8,8]"#));
            assert_eq!(
                lane.text("late"),
                "reprise_replace_class() can be called in a boot only, before reprise_snapshot()"
            );
            for end in ["ends", "fails", "ends", "fails"] {
                let answer = lane.get(&format!("/?do={end}"));
                assert!(answer.text().starts_with("by plain"), "{end}: {} {}", answer.status, answer.text());
            }
            assert_eq!(lane.same("said", 2), said);
        },
    );
}
