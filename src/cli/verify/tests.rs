//! What a comparison prints, for operators and for programs.

use super::*;

fn line(one: &Compared) -> String {
    format::json(&Row::new(one))
}

fn compared(verdict: Verdict) -> Compared {
    Compared {
        table: TableName::new("plant", "reading"),
        literals: vec!["'s1'".to_owned(), "7".to_owned()],
        bytes: PartitionKey::new([1, 2]),
        generation: Generation(5),
        verdict,
    }
}

fn differs(demoted: Option<Demoted>) -> Compared {
    let reason = "the copy differs: bucket 3: a value differs in column \"v\"".to_owned();
    compared(Verdict::Differs { reason, demoted })
}

fn seen(found: Vec<Option<Compared>>) -> Seen {
    let mut seen = Seen {
        splits: found.len(),
        is_whole: true,
        ..Seen::default()
    };
    for one in found {
        seen.add(one);
    }
    seen
}

const EQUAL: Verdict = Verdict::Equal {
    rows: 20,
    bytes: 2048,
    checksum: [0xab; 16],
};

#[test]
fn equal_ones_are_summed_up() {
    let two = seen(vec![Some(compared(EQUAL)), Some(compared(EQUAL))]);
    assert_eq!(
        compose(&two, false),
        "2 splits are equal to their originals: 40 rows, 4.0 KiB\n"
    );
    let none = compose(&seen(Vec::new()), false);
    assert_eq!(
        none,
        "no split is in service, so there is nothing to compare\n"
    );
}

#[test]
fn a_difference_says_what_was_done_and_what_to_do() {
    let demoted = Some(Demoted::Now(Some(Mode::Detect)));
    let found = seen(vec![Some(compared(EQUAL)), Some(differs(demoted)), None]);
    assert_eq!(found.differing(), 1);
    assert_eq!(
        compose(&found, false),
        "1 split is equal to its original: 20 rows, 2.0 KiB\n\
         plant.reading 's1', 7: DIFFERS: the copy differs: bucket 3: a value differs in column \"v\"; it is out of service now\n\
         1 split went out of service meanwhile\n\
         plant.reading is in mode detect now: all its splits are out of service, and no more partitions are split\n\
         find out who writes around the proxies, then run: narrows mode plant.reading serve\n"
    );
    let reported = compose(&seen(vec![Some(differs(None))]), true);
    assert!(reported.contains("it is still in service\n"), "{reported}");
    assert!(reported.contains("nothing was changed: "), "{reported}");
}

#[test]
fn somebody_who_left_is_told_how_far_it_was() {
    let mut found = seen(vec![Some(compared(EQUAL))]);
    found.splits = 9;
    found.is_whole = false;
    let text = compose(&found, false);
    assert!(text.ends_with("stopped after 1 of 9 splits\n"), "{text}");
}

#[test]
fn programs_get_one_object_a_line() {
    assert_eq!(
        line(&compared(EQUAL)),
        "{\"table\":\"plant.reading\",\"key\":[\"'s1'\",\"7\"],\"partition_key\":\"0x0102\",\"generation\":5,\
         \"result\":\"equal\",\"reason\":null,\"rows\":20,\"bytes\":2048,\
         \"checksum\":\"0xabababababababababababababababab\",\"taken_out_of_service\":false,\"table_mode\":null}\n"
    );
    let out = line(&differs(Some(Demoted::Now(Some(Mode::Detect)))));
    assert!(
        out.ends_with("\"taken_out_of_service\":true,\"table_mode\":\"detect\"}\n"),
        "{out}"
    );
    let not = line(&compared(Verdict::NotCompared(
        "a replica is down".to_owned(),
    )));
    assert!(
        not.contains("\"result\":\"not_compared\",\"reason\":\"a replica is down\""),
        "{not}"
    );
}
