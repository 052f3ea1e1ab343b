//! `narrows mode`: how far Narrows goes with a table, shown or changed. Every proxy follows within a poll.

use super::splits::arguments::ModeArguments;
use super::splits::{Control, SplitsError};
use crate::config::Config;
use crate::watched::{Mode, WatchedTable};

pub async fn mode(config: &Config, command: &ModeArguments) -> Result<String, SplitsError> {
    let control = Control::open(config).await?;
    let row = control.table(&command.table).await?;
    let Some(mode) = command.mode else {
        return Ok(shown(&row.table));
    };
    // Written also where it is so already: that is known only when a change of ours returned.
    if !control.store.set_mode(&row.table.name, mode).await? {
        let text = format!("{} is not watched any more", command.table);
        return Err(SplitsError::Refused(text));
    }
    Ok(changed(&row.table, mode))
}

fn shown(table: &WatchedTable) -> String {
    let (name, mode) = (&table.name, table.mode);
    let paused = match table.paused {
        true => format!(
            "and paused: no split begins another stage until: narrows splits resume {name}\n"
        ),
        false => String::new(),
    };
    format!(
        "{name} is in mode {}: {}\n{paused}",
        mode.as_str(),
        words(mode)
    )
}

fn words(mode: Mode) -> &'static str {
    match mode {
        Mode::Off => "nothing is found or split, and all reads are answered by the originals",
        Mode::Detect => {
            "wide partitions are found and reported, and all reads are answered by the originals"
        }
        Mode::Serve => {
            "wide partitions are found and split, and their reads answered from the splits"
        }
    }
}

fn changed(table: &WatchedTable, mode: Mode) -> String {
    let (name, before) = (&table.name, table.mode);
    if before == mode {
        return shown(table);
    }
    let stays = match mode {
        Mode::Off | Mode::Detect => {
            "what is split stays as it is, writes to it are checked as before, and mode serve reads it again"
        }
        Mode::Serve => {
            "splits that are in service are read from now on; writes are checked as before"
        }
    };
    let (before, after) = (before.as_str(), mode.as_str());
    format!(
        "{name} changed from mode {before} to {after}: {}\n\
         {stays}\n\
         proxies follow within a poll, about a second; where a configuration file says otherwise, this counts\n",
        words(mode)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::names::TableName;

    #[test]
    fn a_mode_is_shown_with_what_it_means() {
        let mut table = WatchedTable::new(TableName::new("p", "t"));
        assert_eq!(
            shown(&table),
            "p.t is in mode serve: wide partitions are found and split, and their reads answered from the splits\n"
        );
        table.paused = true;
        assert!(shown(&table).ends_with("until: narrows splits resume p.t\n"));
        assert_eq!(changed(&table, Mode::Serve), shown(&table));
    }

    #[test]
    fn a_change_says_what_changes_for_reads_and_what_does_not() {
        let table = WatchedTable::new(TableName::new("p", "t"));
        assert_eq!(
            changed(&table, Mode::Off),
            "p.t changed from mode serve to off: nothing is found or split, and all reads are answered by the originals\n\
             what is split stays as it is, writes to it are checked as before, and mode serve reads it again\n\
             proxies follow within a poll, about a second; where a configuration file says otherwise, this counts\n"
        );
    }
}
