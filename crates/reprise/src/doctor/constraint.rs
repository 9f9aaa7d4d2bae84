//! Composer's constraints on versions, such as `^8.1 || ~8.3.2`, for versions of PHP.

/// Major, minor and patch.
type Version = (u64, u64, u64);

/// Whether a version fits. `None`: the constraint cannot be understood.
pub fn allows(constraint: &str, version: &str) -> Option<bool> {
    let version = parse(version)?.0;
    let alternatives = constraint.replace("||", "|");
    let mut is_any = false;
    for part in alternatives.split('|') {
        is_any |= allows_all(part.trim(), version)?;
    }
    Some(is_any)
}

fn allows_all(text: &str, version: Version) -> Option<bool> {
    if let Some((from, to)) = text.split_once(" - ") {
        let (from, (to, parts)) = (parse(from.trim())?.0, parse(to.trim())?);
        let end = if parts == 3 { (to.0, to.1, to.2 + 1) } else { after(to, parts) };
        return Some(version >= from && version < end);
    }
    // A space may stand between the sign and its version.
    let mut joined = text.replace(',', " ");
    for sign in [">=", "<=", "!=", "==", ">", "<", "=", "^", "~"] {
        joined = joined.replace(&format!("{sign} "), sign);
    }
    let mut is_all = true;
    for one in joined.split_whitespace() {
        is_all &= allows_one(one, version)?;
    }
    Some(is_all)
}

fn allows_one(text: &str, version: Version) -> Option<bool> {
    let text = text.split('@').next().unwrap_or(text);
    if text == "*" || text.is_empty() {
        return Some(true);
    }
    let signs = [">=", "<=", "!=", "<>", "==", "^", "~", ">", "<", "="];
    let (sign, rest) = signs.iter().find_map(|sign| Some((*sign, text.strip_prefix(sign)?))).unwrap_or(("", text));
    if let Some(stem) = rest.strip_suffix(".*").or_else(|| rest.strip_suffix(".x")) {
        let (from, parts) = parse(stem)?;
        let is_in = version >= from && version < after(from, parts);
        return Some(if sign == "!=" { !is_in } else { is_in });
    }
    let (from, parts) = parse(rest)?;
    Some(match sign {
        ">=" => version >= from,
        "<=" => version <= from,
        ">" => version > from,
        "<" => version < from,
        "!=" | "<>" => version != from,
        "^" => version >= from && version < if from.0 > 0 { (from.0 + 1, 0, 0) } else { (0, from.1 + 1, 0) },
        "~" => version >= from && version < if parts >= 3 { (from.0, from.1 + 1, 0) } else { (from.0 + 1, 0, 0) },
        _ => version == from,
    })
}

/// The first version behind those that begin with so many parts.
fn after(version: Version, parts: usize) -> Version {
    if parts <= 1 { (version.0 + 1, 0, 0) } else { (version.0, version.1 + 1, 0) }
}

/// A version, and how many parts are written.
fn parse(text: &str) -> Option<(Version, usize)> {
    let text = text.trim().trim_start_matches('v');
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let numbers: Vec<u64> =
        text[..end].trim_end_matches('.').split('.').map(str::parse).collect::<Result<_, _>>().ok()?;
    let part = |at: usize| numbers.get(at).copied().unwrap_or(0);
    Some(((part(0), part(1), part(2)), numbers.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constraints_are_composers() {
        for (constraint, version, expected) in [
            ("^8.1", "8.2.36", true),
            ("^8.3", "8.2.36", false),
            ("^7.4 || ^8.0", "8.2.36", true),
            ("^7.4|^8.0", "8.2.36", true),
            (">=7.2.5", "8.2.36", true),
            (">= 7.2.5, < 8.2", "8.2.36", false),
            (">=7.2 <9", "8.2.36", true),
            ("~8.1", "8.2.36", true),
            ("~8.1.0", "8.2.36", false),
            ("~8.1.0 || ~8.2.0", "8.2.36", true),
            ("8.1.*", "8.2.36", false),
            ("8.2.*", "8.2.36", true),
            ("!=8.2.36", "8.2.36", false),
            ("*", "8.2.36", true),
            ("7.1 - 8.1", "8.2.36", false),
            ("7.1 - 8.2", "8.2.36", true),
            (">=8.1@dev", "8.2.36", true),
            ("^8", "8.2.36", true),
            ("^9.0", "8.2.36", false),
            ("8.2.36", "8.2.36", true),
            ("==8.2.35", "8.2.36", false),
            (">=8.2.36-dev", "8.2.36", true),
        ] {
            assert_eq!(allows(constraint, version), Some(expected), "{constraint} {version}");
        }
        assert_eq!(allows("dev-master", "8.2.36"), None);
    }
}
