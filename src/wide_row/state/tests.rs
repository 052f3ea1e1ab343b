//! Every pair of state and step, against a table written down by hand.

use super::*;

fn at(state: State) -> Standing {
    Standing {
        state,
        generation: Generation(3),
        row_epoch: 7,
        epoch: 7,
    }
}

fn steps() -> Vec<Step> {
    vec![
        Step::Plan(PreSplitData::default()),
        Step::FindNotWide(PreSplitData::default()),
        Step::Refuse("masked column".to_owned()),
        Step::Wait("it was written to".to_owned()),
        Step::Guard,
        Step::Copy,
        Step::Verify,
        Step::Complete {
            original: PreSplitData::default(),
            copy: PostSplitData::default(),
        },
        Step::Fail {
            reason: "bucket 3 differs".to_owned(),
            failures: 1,
        },
    ]
}

#[test]
fn only_the_legal_steps_can_be_made() {
    use State::*;
    let legal = [
        (Detected, Detected),
        (Detected, Planned),
        (Detected, NotWide),
        (Detected, Refused),
        (Detected, Failed),
        (Planned, Refused),
        (Planned, Guarded),
        (Planned, Failed),
        (Guarded, Guarded),
        (Guarded, Copying),
        (Guarded, Failed),
        (Copying, Verifying),
        (Copying, Failed),
        (Verifying, Completed),
        (Verifying, Failed),
    ];
    for from in State::ALL {
        for step in steps() {
            let to = step.target();
            let made = Transition::step(at(from), step);
            match made {
                Ok(made) => {
                    assert!(legal.contains(&(from, to)), "{from:?} to {to:?}");
                    assert_eq!((made.from(), made.to()), (from, to));
                    assert_eq!(made.next_generation(), Generation(3));
                }
                Err(error) => {
                    assert!(!legal.contains(&(from, to)), "{from:?} to {to:?}");
                    assert_eq!(error, Illegal::Order { from, to });
                }
            }
        }
    }
}

#[test]
fn a_new_attempt_follows_ends_only_and_counts_on() {
    for state in State::ALL {
        let again = Transition::again(at(state));
        assert_eq!(again.is_ok(), state.is_end(), "{state:?}");
        if let Ok(again) = again {
            assert_eq!(again.next_generation(), Generation(4));
            assert_eq!(again.to(), State::Detected);
        }
    }
}

#[test]
fn a_person_also_begins_anew_what_is_only_detected() {
    for state in State::ALL {
        let again = Transition::again_by_hand(at(state));
        let may = state.is_end() || state == State::Detected;
        assert_eq!(again.is_ok(), may, "{state:?}");
        if let Ok(again) = again {
            assert_eq!(again.next_generation(), Generation(4));
        }
    }
}

#[test]
fn what_waits_is_read_from_its_beginning_next_time() {
    let wait = Step::Wait("it was written to".to_owned());
    let wait = Transition::step(at(State::Detected), wait).expect("legal");
    assert!(wait.forgets_progress());
    assert_eq!(wait.reason(), Some("it was written to"));
    let plan = Step::Plan(PreSplitData::default());
    let plan = Transition::step(at(State::Detected), plan).expect("legal");
    assert_eq!((plan.forgets_progress(), plan.reason()), (false, None));
}

#[test]
fn another_epoch_ends_every_state() {
    for state in State::ALL {
        let gone = Standing {
            epoch: 8,
            ..at(state)
        };
        assert!(!gone.is_in_service());
        assert!(Transition::step(gone, Step::Guard).is_err(), "{state:?}");
        let again = Transition::again(gone).expect("whatever it was, it is over");
        assert_eq!((again.epoch(), again.next_generation()), (8, Generation(4)));
    }
    assert!(at(State::Completed).is_in_service());
}

#[test]
fn a_retired_shard_takes_no_new_attempt() {
    let retired = Standing {
        epoch: RETIRED,
        ..at(State::Invalidated)
    };
    assert!(Transition::again(retired).is_err());
}

#[test]
fn generations_are_not_reused_when_they_run_out() {
    let last = Standing {
        generation: Generation(i32::MAX),
        ..at(State::Failed)
    };
    assert_eq!(Transition::again(last), Err(Illegal::Exhausted(i32::MAX)));
}

#[test]
fn states_are_spelled_both_ways_and_unknown_ones_stay_unknown() {
    for state in State::ALL {
        assert_eq!(State::parse(state.as_str()), Some(state));
    }
    assert_eq!(State::parse("MIRRORED"), None);
    assert_eq!(State::parse("completed"), None);
}

#[test]
fn what_is_guarded_is_what_can_be_invalidated() {
    for state in State::ALL {
        let can_be = INVALIDATED_FROM.contains(&state);
        assert_eq!(can_be, state.is_guarded() || state == State::Invalidated);
    }
}
