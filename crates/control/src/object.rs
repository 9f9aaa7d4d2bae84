//! Objects of JSON whose keys are documented by the same rows that define them.

/// Makes a struct, its form in JSON, and the table of its keys. The comment of a field is a line of docs/reference/status.md. A
/// key must be there when the object is read, `null` or not, unless its row says `optional`.
macro_rules! object {
    (
        $(#[$about:meta])*
        pub struct $name:ident {
            $(#[doc = $text:literal] $(#[$how:meta])* pub $field:ident: $kind:ty,)*
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        pub struct $name {
            $(#[doc = $text] $(#[$how])* pub $field: $kind,)*
        }

        impl $name {
            /// Its keys with what they mean.
            pub const KEYS: &[(&str, &str)] = &[$((stringify!($field), $text)),*];
        }
    };
}

/// Gives an enum of `ipc::table!` its form in JSON: its word.
macro_rules! word {
    ($($name:ident)*) => {
        $(impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.word())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                let word = std::borrow::Cow::<str>::deserialize(deserializer)?;
                let known = $name::ALL.into_iter().find(|one| one.word() == word);
                known.ok_or_else(|| {
                    let words = $name::ALL.map($name::word).join(", ");
                    serde::de::Error::custom(format_args!("unknown word `{word}`, expected one of {words}"))
                })
            }
        })*
    };
}

pub(crate) use {object, word};
