//! WordPress' design is merged once (mu-plugins/reprise/design.php): what a request gets is what it gets in classic mode, whatever it has changed before.

use std::fs;

use tests::Server;
use tests::bridged::{self, HOST};

use super::{block_theme, choose_theme, start};

/// `/design/CASE` says what the two methods return, before and after what the case does, and again.
const CASES: &str = r#"<?php
add_action('template_redirect', static function () {
    if (!preg_match('~^/design/([a-z-]+)/$~', $_SERVER['REQUEST_URI'], $matched)) {
        return;
    }
    $say = static function (string ...$origins): array {
        $said = [];
        foreach ($origins ?: ['custom', 'theme', 'custom'] as $origin) {
            $said[] = md5(serialize(WP_Theme_JSON_Resolver::get_merged_data($origin)->get_raw_data()));
        }
        $said[] = md5(serialize(WP_Theme_JSON_Resolver::get_theme_data()->get_raw_data()));
        $said[] = md5(serialize(WP_Theme_JSON_Resolver::get_theme_data([], ['with_supports' => false])->get_raw_data()));

        return $said;
    };
    $json = static fn (array $settings) => new WP_Theme_JSON(['version' => 2, 'settings' => $settings]);
    $case = preg_replace('/^fresh-/', '', $matched[1]);
    if ($case !== $matched[1]) {
        // Nothing is made yet: WordPress makes each part at its first use and at its second.
        WP_Theme_JSON_Resolver::clean_cached_data();
        $said = ['case' => $matched[1], 'before' => $say('custom')];
    } else {
        // WordPress 6.1 merges into its own part until nothing changes.
        for ($i = 0; $i < 3; $i++) {
            WP_Theme_JSON_Resolver::get_merged_data();
        }
        $said = ['case' => $matched[1], 'before' => $say(), 'again' => $say()];
    }
    match ($case) {
        'nothing' => null,
        'feature' => add_theme_support('editor-color-palette', [['name' => 'Odd', 'slug' => 'odd', 'color' => '#123456']]),
        'feature-of-fonts' => add_theme_support('disable-custom-font-sizes'),
        'feature-gone' => remove_theme_support('editor-font-sizes'),
        'units' => add_theme_support('custom-units', 'rem', 'vw'),
        'style' => register_block_style('core/quote', ['name' => 'odd', 'label' => 'Odd']),
        'block' => register_block_type('odd/odd', ['supports' => ['color' => ['text' => true]]]),
        'own-part' => WP_Theme_JSON_Resolver::get_core_data()->merge($json(['custom' => ['own' => 'yes']])),
        'theme-part' => WP_Theme_JSON_Resolver::get_theme_data([], ['with_supports' => false])->merge($json(['custom' => ['theme' => 'yes']])),
        'result' => WP_Theme_JSON_Resolver::get_merged_data()->merge($json(['custom' => ['odd' => 'yes']])),
        'theme-result' => WP_Theme_JSON_Resolver::get_theme_data()->merge($json(['custom' => ['odd' => 'yes']])),
        'language' => add_filter('locale', static fn () => 'de_DE'),
        'words' => add_filter('gettext', static fn ($text, $word) => $word === 'Large' ? 'Groß' : $text, 10, 2),
        'words-of-context' => add_filter('gettext_with_context_default', static fn ($text) => "<$text>"),
        'words-of-scale' => [
            WP_Theme_JSON_Resolver::get_theme_data([], ['with_supports' => false])->merge($json(['spacing' => ['spacingScale' => [
                'operator' => '+', 'increment' => 1, 'steps' => 15, 'mediumStep' => 4, 'unit' => 'rem',
            ]]])),
            $say(),
            add_filter('gettext', static fn ($text) => "<$text>"),
        ],
        'forgotten' => WP_Theme_JSON_Resolver::clean_cached_data(),
        'filter' => [add_filter('wp_theme_json_data_theme', static fn ($data) => $data->update_with(['version' => 2, 'settings' => ['custom' => ['odd' => 'yes']]])), WP_Theme_JSON_Resolver::clean_cached_data()],
        'variation' => register_block_style('core/quote', ['name' => 'odd', 'label' => 'Odd', 'style_data' => ['color' => ['text' => '#123456']]]),
        'subclass' => eval('class OwnResolver extends WP_Theme_JSON_Resolver {} class OwnScripts extends WP_Scripts { function &__get($name) { return $this->$name; } function __set($name, $value) { $this->$name = $value; } function __isset($name) { return isset($this->$name); } function __unset($name) { unset($this->$name); } }') ?? $said['own'] = [
            md5(serialize(OwnResolver::get_merged_data()->get_raw_data())), count((new OwnScripts())->registered),
        ],
        'late-filter' => add_filter('wp_theme_json_data_theme', static fn ($data) => $data->update_with(['version' => 2, 'settings' => ['custom' => ['late' => 'yes']]])),
        'all-origins' => $said['origins'] = $say('default', 'blocks', 'theme', 'custom', 'default', 'odd'),
    };
    $said += ['after' => $say(), 'after again' => $say()];
    $said['styles'] = array_map('array_keys', WP_Block_Styles_Registry::get_instance()->get_all_registered());
    $said['changes'] = $said['after'] !== ($said['again'] ?? null);
    header('Content-Type: application/json');
    exit(json_encode($said) . '|' . (new ReflectionClass('WP_Theme_JSON_Resolver'))->getName());
}, PHP_INT_MAX);
"#;

const NAMES: [&str; 21] = [
    "nothing",
    "feature",
    "feature-of-fonts",
    "feature-gone",
    "units",
    "style",
    "block",
    "own-part",
    "theme-part",
    "result",
    "theme-result",
    "language",
    "words",
    "words-of-context",
    "words-of-scale",
    "forgotten",
    "filter",
    "variation",
    "subclass",
    "late-filter",
    "all-origins",
];

/// The answer, and which class has the resolver's name.
fn said(server: &Server, case: &str) -> (String, String) {
    let text = server.client().request("GET", &format!("/design/{case}/"), &[("Host", HOST)], b"").text();
    let (said, class) = text.split_once('|').unwrap_or_else(|| panic!("{case}: {text}"));
    (said.to_owned(), class.to_owned())
}

/// Twice in turns, so that each case comes behind each other one's change.
#[test]
fn a_design_that_was_merged_once_is_the_one_of_classic_mode() {
    let (_database, _place, application) = bridged::build_wordpress();
    let root = application.join("htdocs");
    fs::write(root.join("wp-content/mu-plugins/cases.php"), CASES).unwrap();
    // The other one, where there is one, has no theme.json.
    let themes = [block_theme(), "twentytwentyone"];
    for theme in themes.iter().filter(|theme| root.join("wp-content/themes").join(theme).exists()) {
        choose_theme(theme, &application);
        let [classic, kept] =
            ["classic", "snapshot"].map(|mode| start(&root, mode, "env.REPRISE_WARMUP = \"/ /post-5/\""));
        let mut changing = Vec::new();
        for round in 0..2 {
            for case in NAMES.iter().flat_map(|name| [(*name).to_owned(), format!("fresh-{name}")]) {
                let ((expected, own), (answer, by)) = (said(&classic, &case), said(&kept, &case));
                assert_eq!(answer, expected, "{theme}, {case}, round {round}");
                assert_eq!(
                    (own.as_str(), by.as_str()),
                    ("WP_Theme_JSON_Resolver", r"Reprise\WordPress\Design"),
                    "{case}"
                );
                if expected.contains("\"changes\":true") {
                    changing.push(case.clone());
                }
            }
        }
        changing.sort_unstable();
        changing.dedup();
        assert!(changing.len() >= 5, "{theme}: only {changing:?} change anything");
    }
}
