//! Laravel's cache.

use std::fs;
use std::process::Command;

use tests::amount;
use tests::bridged::build_bridged;
use tests::peer::run_to_end;
use tests::wait_until;

use super::{Script, text};

#[test]
fn laravel_s_cache_is_the_data_cache() {
    let (_place, application) = build_bridged("laravel");
    run_to_end(Command::new("php").args(["artisan", "package:discover"]).current_dir(&application));
    run_to_end(Command::new("chmod").args(["-R", "a+rX", "bootstrap/cache"]).current_dir(&application));
    let root = application.join("public");
    fs::write(root.join("cache.php"), text("laravel.php")).expect("a script");
    for mode in &["snapshot", "worker", "classic"][..amount(1, 3)] {
        let script = Script::start(&root, mode, 6);
        for _ in 0..3 {
            script.says("put", "[true,false,2,1,true]");
            for _ in 0..4 {
                script.says("get", r#"[{"x":[1]},{"key":{"x":[1]},"nothing":null},1,"tagged",false]"#);
            }
            script.says("flush", "[true,null,true,null,true,null]");
        }
        script.crowd("remember", "crowd");
        script.crowd("tagged", "tags");
        script.says("no%20tag", "true");
        script.says("tagged&key=tags", "\"made 2\"");
        for number in 1..=2 {
            script.says("forgotten&key=forgotten", &format!("\"made {number}\""));
            script.says("null&key=null", "null");
            assert_eq!(script.computed("null"), number);
        }
        // One that is cold is computed once, too. When it is not fresh it is returned, and made anew behind a response.
        script.crowd("flexible&fresh=50", "flexible50");
        script.says("flexible&fresh=1&key=flexible", "\"made 1\"");
        wait_until("the value is renewed", 10, || {
            let said = script.get("flexible&fresh=1&key=flexible");
            assert!(said == "\"made 1\"" || said == "\"made 2\"", "{said}");
            said == "\"made 2\""
        });
        script.says("lock&owner=a", "true");
        script.says("lock&owner=b", "false");
        script.says("release&owner=b", "false");
        script.says("release&owner=a", "true");
        script.says("lock&owner=b", "true");
    }
}
