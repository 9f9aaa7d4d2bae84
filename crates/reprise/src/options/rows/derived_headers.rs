//! The option `derive`: headers that are made of each request.

use std::collections::{BTreeMap, BTreeSet};

use routing::derived::by_country::ByCountry;
use routing::derived::{Derived, From, MOST};
use toml::de::{DeTable, DeValue};

use super::super::Kind::{Text, Texts};
use super::super::reader::{Given, Item};
use super::super::value::Value;
use super::Application;
use crate::exit::Failure;

const KINDS: &str = "\"device\", \"language: de, en\", \"has cookie: session\", \"cookie country: de, at\", \"bucket: 4\" or a table with file and \
    countries; at most 64 values";
const TABLE: &str = "{ file = \"/var/lib/GeoIP/GeoLite2-Country.mmdb\", cookie = \"country\", countries = [\"DE\", \"AT\"], default = \"other\" }; \
    groups.EU = [\"DE\", \"AT\"] in the place of countries";
/// The value for other countries, if nothing else is said.
const OTHER: &str = "other";
/// The officially assigned codes of ISO 3166-1, and Kosovo's, which has none but is in files.
const CODES: &str = "AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW BY BZ CA CC CD \
    CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO FR GA GB GD GE GF GG GH GI GL GM GN GP \
    GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP KE KG KH KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU \
    LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ MR MS MT MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN \
    PR PS PT PW PY QA RE RO RS RU RW SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW \
    TZ UA UG UM US UY UZ VA VC VE VG VI VN VU WF WS XK YE YT ZA ZM ZW";

/// Headers that are derived, by name.
pub(super) fn derive(given: &Given<'_, '_>, _: &Application) -> Result<Vec<Derived>, Failure> {
    let mut all = Vec::new();
    for (key, value) in given.table()?.iter() {
        let (at, name) = (key.span().start, key.get_ref().to_ascii_lowercase());
        let is_name = name.starts_with("x-") && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let is_forwarded = name.starts_with("x-forwarded") || name.starts_with("x-real");
        if !is_name || is_forwarded {
            let failure = given.file.fail(at, format!("'{}' cannot be derived", key.get_ref()));
            return Err(failure.hint("a header of your own, whose name begins with X-: derive.X-Device"));
        }
        let from = match value.get_ref() {
            DeValue::String(text) => From::parse(text).ok_or_else(|| {
                let why = format!("\"{text}\" says nothing that can be derived");
                given.file.fail(value.span().start, why).hint(KINDS)
            })?,
            DeValue::Table(table) => From::Country(by_country(&given.part(given.name, value), table)?),
            _ => {
                let why = format!("'{}' takes a text, or a table for a country", key.get_ref());
                return Err(given.file.fail(value.span().start, why).hint(KINDS));
            }
        };
        all.push(Derived { name, from });
    }
    Ok(all)
}

fn by_country(given: &Given<'_, '_>, table: &DeTable<'_>) -> Result<ByCountry, Failure> {
    const NAMES: [&str; 5] = ["file", "cookie", "countries", "groups", "default"];
    if let Some(key) = table.keys().find(|key| !NAMES.contains(&key.get_ref().as_ref())) {
        let why = format!("a derived country has no '{}'", key.get_ref());
        return Err(given.file.fail(key.span().start, why).hint(NAMES.join(", ")));
    }
    let text = |name: &'static str| {
        let read = |item| String::read(&Given { kind: Text, ..given.part(name, item) });
        table.get(name).map(read).transpose()
    };
    let file = text("file")?.map(|file| given.file.base.join(file));
    let cookie = text("cookie")?;
    if file.is_none() && cookie.is_none() {
        return Err(given.fail("a derived country takes a file or a cookie").hint(TABLE));
    }
    if let Some(name) = cookie.as_ref().filter(|name| !is_word(name)) {
        return Err(given.fail(format!("\"{name}\" is no name of a cookie that can be derived")).hint(WORD));
    }
    let values = match (table.get("countries"), table.get("groups")) {
        (Some(item), None) => {
            let all = countries(&given.part("countries", item))?;
            all.into_iter().map(|code| (code.clone(), code)).collect()
        }
        (None, Some(item)) => groups(&given.part("groups", item), item)?,
        _ => return Err(given.fail("a derived country takes either countries or groups").hint(TABLE)),
    };
    let default = text("default")?.unwrap_or_else(|| OTHER.to_owned());
    if !is_word(&default) {
        return Err(given.fail(format!("\"{default}\" cannot be the value of a header here")).hint(WORD));
    }
    let all: BTreeSet<&String> = values.values().chain([&default]).collect();
    if all.len() > MOST {
        let why = format!("a derived header has at most {MOST} values, and this has {}", all.len());
        return Err(given.fail(why).hint("groups of countries: groups.EU = [\"DE\", \"AT\"]"));
    }
    Ok(ByCountry { cookie, file, table: 0, values, default })
}

const WORD: &str = "1 to 32 letters, digits, - and _";

fn is_word(text: &str) -> bool {
    (1..=32).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

/// Codes of countries.
fn countries(given: &Given<'_, '_>) -> Result<Vec<String>, Failure> {
    let all = Vec::<String>::read(&Given { kind: Texts, ..given.part(given.name, given.item) })?;
    if all.is_empty() {
        return Err(given.fail(format!("'{}' is empty", given.name)).hint(TABLE));
    }
    match all.iter().find(|code| !CODES.split_ascii_whitespace().any(|known| known == code.as_str())) {
        Some(code) => Err(given
            .fail(format!("'{code}' is no country of ISO 3166"))
            .hint("two letters in upper case: DE, FR; the United Kingdom is GB, Greece is GR")),
        None => Ok(all),
    }
}

/// The group of each country.
fn groups(given: &Given<'_, '_>, item: &Item<'_>) -> Result<BTreeMap<String, String>, Failure> {
    let DeValue::Table(table) = item.get_ref() else {
        return Err(given.fail("'groups' takes a table of lists of countries").hint(TABLE));
    };
    let mut values = BTreeMap::new();
    for (key, item) in table.iter() {
        let name = key.get_ref().to_string();
        if !is_word(&name) {
            return Err(given.file.fail(key.span().start, format!("\"{name}\" cannot be a group")).hint(WORD));
        }
        for code in countries(&given.part("groups", item))? {
            if let Some(other) = values.insert(code.clone(), name.clone()) {
                let why = format!("'{code}' is in the group '{other}' and in '{name}'");
                return Err(given.file.fail(item.span().start, why).hint("a country is in one group, once"));
            }
        }
    }
    if values.is_empty() {
        return Err(given.fail("'groups' is empty").hint(TABLE));
    }
    Ok(values)
}
