//! `[auth]`: one source, one header.

use super::error::{CredentialFault, Fault, ProfileError};
use super::expand;
use super::headers;
use super::raw::{Field, Section};
use super::{Reading, World};
use crate::engine::operation::{Guarded, Header};
use crate::engine::secret::{Mask, Secret};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The header that carries credentials.
pub(super) const AUTHORIZATION: &str = "Authorization";

/// Returns the value of an Authorization header for a user and a password. The mask hides the password and the
/// encoded pair; the user too where there is no password, as some partners want their key there.
pub(super) fn basic(user: &str, password: &str, mask: &mut Mask) -> Guarded {
    let encoded = STANDARD.encode(format!("{user}:{password}"));
    mask.add(&encoded);
    mask.add(if password.is_empty() { user } else { password });
    headers::hidden(&format!("Basic {encoded}"), mask)
}

const TOKENS: [&str; 3] = ["token_env", "token_file", "token_command"];
const PASSWORDS: [&str; 3] = ["password_env", "password_file", "password_command"];

/// Reads `[auth]`.
pub(super) fn read(section: &Section<'_>, reading: &mut Reading<'_>) -> Result<Header, ProfileError> {
    let user = section.get("user");
    let sources: Vec<Field<'_>> = TOKENS.iter().chain(&PASSWORDS).filter_map(|key| section.get(key)).collect();
    let source = match sources.as_slice() {
        [] if user.is_some() => {
            return Err(section.missing("password_env", "`user` needs a password_env, _file or _command"));
        }
        [] => {
            return Err(
                section.missing("token_env", "[auth] needs a token_env, token_file or token_command, or a user")
            );
        }
        [source] => source,
        [first, second, ..] => {
            let why = format!("and `{}` are both stated, exactly one source is used", first.name);
            return Err(second.refused(why, None));
        }
    };
    let is_password = PASSWORDS.iter().any(|key| source.name.ends_with(key));
    let scheme = scheme(section, is_password)?;
    let value = match user {
        Some(user) if is_password => {
            let name = user.text()?;
            if name.contains(':') || name.is_empty() || headers::check_value(name).is_err() {
                return Err(user.refused("must be printable ASCII without a colon", None));
            }
            let password = secret(source, reading)?;
            basic(name, &password, &mut reading.mask)
        }
        Some(user) => return Err(user.refused("and a token are both stated", Some("a user goes with a password_env"))),
        None if is_password => return Err(section.missing("user", "a password needs a user")),
        None => {
            let token = secret(source, reading)?;
            reading.mask.add(&token);
            let stored = match source.name.ends_with("_env") {
                true => expand::reference(&format!("{scheme} ${{{}}}", source.text()?)),
                false => expand::MASKED.to_owned(),
            };
            Guarded { sent: Secret::new(&format!("{scheme} {token}")), stored: stored.into(), shown: "***".into() }
        }
    };
    Ok(Header { name: AUTHORIZATION.into(), value })
}

/// Returns the scheme: `Basic` for a user and `Bearer` for a token where none is stated.
fn scheme<'s>(section: &Section<'s>, is_password: bool) -> Result<&'s str, ProfileError> {
    let Some(field) = section.get("scheme") else {
        return Ok(if is_password { "Basic" } else { "Bearer" });
    };
    let scheme = field.text()?;
    if headers::check_name(scheme).is_err() {
        return Err(field.refused("is no scheme such as \"Bearer\"", None));
    }
    if scheme.eq_ignore_ascii_case("basic") != is_password {
        let why = if is_password { "must be \"Basic\" with a user" } else { "\"Basic\" needs a user and a password" };
        return Err(field.refused(why, None));
    }
    Ok(scheme)
}

/// Returns what the source holds, without the line break at its end.
pub(super) fn secret(field: &Field<'_>, reading: &Reading<'_>) -> Result<String, ProfileError> {
    let fail = |why| field.fault(Fault::Credential { key: field.key(), why });
    let bytes = if field.name.ends_with("_env") {
        let name = field.text()?;
        return expand::variable(field, name, reading.world).and_then(|value| usable(value).map_err(fail));
    } else if field.name.ends_with("_file") {
        let path = field.text()?;
        reading
            .world
            .read(&reading.home.join(path))
            .map_err(|why| fail(CredentialFault::File { path: path.into(), why: why.to_string().into() }))?
    } else {
        run(field, reading.world)?
    };
    usable(String::from_utf8(bytes).map_err(|_| fail(CredentialFault::Unusable))?).map_err(fail)
}

fn run(field: &Field<'_>, world: &dyn World) -> Result<Vec<u8>, ProfileError> {
    if !field.is_list() {
        let hint = "write [\"pass\", \"show\", \"acme\"]: no shell splits it";
        return Err(field.refused("must be a list of a command and its arguments", Some(hint)));
    }
    let argv = field.items().iter().map(|item| item.text().map(str::to_owned)).collect::<Result<Vec<_>, _>>()?;
    let Some(command) = argv.first().filter(|command| !command.is_empty()) else {
        return Err(field.refused("names no command", None));
    };
    let fail = |why| field.fault(Fault::Credential { key: field.key(), why });
    let command: Box<str> = command.as_str().into();
    match world.run(&argv) {
        Ok(ran) if ran.status == Some(0) => Ok(ran.stdout),
        Ok(ran) => Err(fail(CredentialFault::Failed { command, status: ran.status })),
        Err(why) => Err(fail(CredentialFault::NotStarted { command, why: why.to_string().into() })),
    }
}

/// Cuts one line break off the end and refuses what cannot be sent.
fn usable(text: String) -> Result<String, CredentialFault> {
    let cut = text.strip_suffix('\n').map_or(&*text, |cut| cut.strip_suffix('\r').unwrap_or(cut));
    match headers::check_value(cut) {
        Ok(()) if cut.trim() == cut => Ok(cut.to_owned()),
        Ok(()) => Err(CredentialFault::Unusable),
        Err(headers::NotAHeader::Empty) => Err(CredentialFault::Empty),
        Err(headers::NotAHeader::LineBreak) => Err(CredentialFault::LineBreak),
        Err(_) => Err(CredentialFault::Unusable),
    }
}
