//! `narrows splits pause` and `narrows splits resume`: whether splits of a table begin their next stage.

use super::{Control, SplitsError};

pub(super) async fn pause(control: &Control, table: &str) -> Result<String, SplitsError> {
    let was = set(control, table, true).await?;
    Ok(paused(table, was))
}

pub(super) async fn resume(control: &Control, table: &str) -> Result<String, SplitsError> {
    let was = set(control, table, false).await?;
    Ok(resumed(table, was))
}

/// Writes it also where it is so already: that is known only when a change of ours returned. Says what it was.
async fn set(control: &Control, table: &str, paused: bool) -> Result<bool, SplitsError> {
    let row = control.table(table).await?;
    if control.store.set_paused(&row.table.name, paused).await? {
        return Ok(row.table.paused);
    }
    let text = format!("{table} is not watched any more");
    Err(SplitsError::Refused(text))
}

fn paused(table: &str, was: bool) -> String {
    let first = match was {
        true => "was paused already",
        false => "is paused: no split of it begins another stage",
    };
    format!(
        "{table} {first}\n\
         reads go on, from splits that are in service too, and writes are checked as before\n\
         to go on: narrows splits resume {table}\n"
    )
}

fn resumed(table: &str, was: bool) -> String {
    match was {
        true => format!(
            "{table} goes on: workers take up its splits within a few seconds, where they were\n\
             to follow them: narrows splits watch {table}\n"
        ),
        false => format!("{table} was not paused\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_and_what_does_not_is_said() {
        assert_eq!(
            paused("p.t", false),
            "p.t is paused: no split of it begins another stage\n\
             reads go on, from splits that are in service too, and writes are checked as before\n\
             to go on: narrows splits resume p.t\n"
        );
        assert!(paused("p.t", true).starts_with("p.t was paused already\n"));
        assert!(resumed("p.t", true).contains("narrows splits watch p.t\n"));
        assert_eq!(resumed("p.t", false), "p.t was not paused\n");
    }
}
