//! PSR-6, PSR-16 and Symfony's interfaces.

use std::fs;
use std::path::Path;
use std::process::Command;

use tests::amount;
use tests::bridged::build_bridged;
use tests::peer::{run_to_end, web_user};
use tests::server::project;

use super::{Script, text};

/// Adds what the documentation says.
fn configure(application: &Path) {
    let page = fs::read_to_string(project().join("docs/guides/data-cache-adapters.md")).expect("the page");
    let blocks: Vec<&str> =
        page.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().expect("an end")).collect();
    let services = application.join("config/services.yaml");
    let own = fs::read_to_string(&services).expect("services");
    let public = ["products", "app", "locks"].into_iter().zip([
        "products",
        "cache.app",
        "Symfony\\Component\\Lock\\LockFactory",
    ]);
    let public: String =
        public.map(|(name, of)| format!("    test.{name}: {{ alias: '{of}', public: true }}\n")).collect();
    let documented = blocks[0].strip_prefix("services:\n").expect("services");
    fs::write(services, format!("{own}{documented}{public}")).expect("services");
    let framework = application.join("config/packages/framework.yaml");
    let own = fs::read_to_string(&framework).expect("a configuration");
    let left: String = own.lines().filter(|line| !line.contains("cache: {")).map(|line| format!("{line}\n")).collect();
    assert!(left.len() < own.len(), "{own}");
    fs::write(framework, left).expect("a configuration");
    fs::write(application.join("config/packages/cache.yaml"), blocks[1]).expect("a configuration");
    run_to_end(Command::new("php").args(["bin/console", "cache:clear"]).current_dir(application));
    run_to_end(Command::new("chown").arg("-R").arg(web_user()).arg(application.join("var")));
}

#[test]
fn psr_s_and_symfony_s_caches_are_the_data_cache() {
    let (_place, application) = build_bridged("symfony");
    configure(&application);
    let root = application.join("public");
    fs::write(root.join("cache.php"), text("symfony.php")).expect("a script");
    for mode in &["snapshot", "worker", "classic"][..amount(1, 3)] {
        let script = Script::start(&root, mode, 6);
        for _ in 0..3 {
            script.says("save", "[true,true]");
            for _ in 0..8 {
                script.says("read", r#"["1","text","none"]"#);
            }
            script.says("clear", "[true,false,true,true,false]");
        }
        script.crowd("get", "crowd");
        script.says("item&key=crowd", "\"made 1\"");
        script.crowd("tagged", "tags");
        for (tag, made) in [("other", 1), ("two", 2), ("one", 3), ("other", 3)] {
            script.says(&format!("invalidate&tag={tag}"), "true");
            script.says("tagged&key=tags", &format!("\"made {made}\""));
        }
        // What was invalidated or removed while it was computed is not kept, nor what its callback does not want to be.
        for (what, most) in [("late", 2), ("deleted", 2), ("unstored", 2), ("forced", 2)] {
            for number in 1..=most {
                script.says(&format!("{what}&key={what}"), &format!("\"made {number}\""));
            }
        }
        script.says("locked", "[true,false,true,true]");
        script.says("lock", "true");
        script.says("lock", "false");
        for made in 1..=2 {
            let wanted =
                r#"["Reprise\\Symfony\\TagAwareAdapter","Reprise\\Symfony\\Adapter","made N",true,false,true]"#;
            script.says("services&key=service", &wanted.replace('N', &made.to_string()));
        }
    }
}
