//! Layouts round trip, and nothing else is ever taken for one.

use super::*;

fn bucket(first: &[&[u8]], row_count: u64) -> Bucket {
    Bucket {
        first: first.iter().map(|value| (*value).into()).collect(),
        row_count,
        byte_count: row_count * 100,
        home: None,
    }
}

fn id() -> LayoutId {
    LayoutId {
        table: TableName::new("metrics", "by_Sensor"),
        key: PartitionKey::new(*b"\x00\x03abc\x00"),
        generation: Generation(7),
    }
}

fn unproven(buckets: Vec<Bucket>) -> Layout {
    let strategy = "EventBucketPartitionSplitStrategy";
    Layout::new(id(), "wide_by_Sensor_1", strategy, buckets)
}

fn proof(buckets: usize) -> Proof {
    let bucket = |number: usize| BucketProof {
        row_count: number as u64,
        first_expiry: (number == 1).then_some(1_800_000_000),
        uneven_from: (number == 2).then_some(-1),
        checksum: [number as u8; 16],
    };
    Proof {
        as_of: 1_700_000_000,
        anchors: vec!["value".to_owned(), "Note".to_owned()],
        buckets: (0..buckets).map(bucket).collect(),
    }
}

fn layout() -> Layout {
    let buckets = vec![
        bucket(&[], 3),
        bucket(&[b"2024", b""], 4),
        bucket(&[b"2025", b"x"], u64::MAX / 100),
    ];
    unproven(buckets).prove(proof(3)).unwrap()
}

fn decode(layout: &Layout, bytes: &[u8]) -> Result<Layout, LayoutError> {
    Layout::decode(bytes, &layout.id(), &layout.seal().unwrap())
}

#[test]
fn reads_what_it_wrote() {
    let mut open = layout().unproven();
    open.horizon = Some(Box::new(*b"2026"));
    open.buckets[1].home = Some((3, 9));
    let open = open.prove(proof(3)).unwrap();
    let mut lone = unproven(vec![bucket(&[], 0)]);
    (lone.key, lone.generation) = (PartitionKey::new([]), Generation(i32::MIN));
    let lone = lone.prove(proof(1)).unwrap();
    for layout in [layout(), open, lone] {
        let bytes = layout.encode().unwrap();
        assert_eq!(decode(&layout, &bytes), Ok(layout));
    }
}

/// Version 2 as it was first written. Other proxies of a fleet read these bytes, and the seal is in the record of every
/// split: if this fails, the version must change.
#[test]
fn the_encoding_stays_what_it_is() {
    let golden: &[&[u8]] = &[
        b"NLT\x02",
        b"\x01\0\0\0k\x01\0\0\0t\x01\0\0\0p\x02\0\0\0",
        b"\x01\0\0\0w\x01\0\0\0s",
        b"\x01\x01\0\0\0h",
        b"\x02\0\0\0",
        b"\0\0\0\0\x01\0\0\0\0\0\0\0\x64\0\0\0\0\0\0\0\0",
        b"\x01\0\0\0\x01\0\0\0c\x02\0\0\0\0\0\0\0\xc8\0\0\0\0\0\0\0\x01\x05\0\0\0\x06\0\0\0",
        b"\x01\x0a\0\0\0\0\0\0\0\x01\0\0\0\x01\0\0\0a\x02\0\0\0",
        b"\x03\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\x7f\xff\xff\xff\xff\xff\xff\xff\x7f",
        &[0xee; 16],
        b"\x04\0\0\0\0\0\0\0\x0b\0\0\0\0\0\0\0\x0c\0\0\0\0\0\0\0",
        &[0xdd; 16],
    ];
    let id = LayoutId {
        table: TableName::new("k", "t"),
        key: PartitionKey::new(*b"p"),
        generation: Generation(2),
    };
    let mut second = bucket(&[b"c"], 2);
    second.home = Some((5, 6));
    let mut layout = Layout::new(id, "w", "s", vec![bucket(&[], 1), second]);
    layout.horizon = Some(Box::new(*b"h"));
    let bucket_proof = |row_count, expiries: Option<(i64, i64)>, byte| BucketProof {
        row_count,
        first_expiry: expiries.map(|(first, _)| first),
        uneven_from: expiries.map(|(_, uneven)| uneven),
        checksum: [byte; 16],
    };
    let proof = Proof {
        as_of: 10,
        anchors: vec!["a".to_owned()],
        buckets: vec![
            bucket_proof(3, None, 0xee),
            bucket_proof(4, Some((11, 12)), 0xdd),
        ],
    };
    let layout = layout.prove(proof).unwrap();
    assert_eq!(layout.encode().unwrap(), golden.concat());
    assert_eq!(decode(&layout, &golden.concat()), Ok(layout));
}

/// Version 1 lives on as the checksum in the store, which earlier versions compare.
#[test]
fn the_first_checksum_stays_what_it_is() {
    let id = LayoutId {
        table: TableName::new("k", "t"),
        key: PartitionKey::new(*b"p"),
        generation: Generation(2),
    };
    let mut layout = Layout::new(id, "w", "s", vec![bucket(&[], 1), bucket(&[b"c"], 2)]);
    let body: &[&[u8]] = &[
        b"NLT\x01",
        b"\x01\0\0\0k\x01\0\0\0t\x01\0\0\0p\x02\0\0\0",
        b"\x01\0\0\0w\x01\0\0\0s\x02\0\0\0",
        b"\0\0\0\0\x01\0\0\0\0\0\0\0\x64\0\0\0\0\0\0\0",
        b"\x01\0\0\0\x01\0\0\0c\x02\0\0\0\0\0\0\0\xc8\0\0\0\0\0\0\0",
    ];
    let first = twox_hash::XxHash3_64::oneshot(&body.concat());
    assert_eq!(layout.checksum(), first);
    let proven = layout.clone().prove(proof(2)).unwrap();
    assert_eq!(proven.checksum(), first, "a proof is beside the layout");
    layout.horizon = Some(Box::new(*b"h"));
    assert_ne!(
        layout.checksum(),
        first,
        "an earlier version would read all rows there"
    );
}

#[test]
fn every_flipped_bit_is_noticed() {
    let bytes = layout().encode().unwrap();
    for index in 0..bytes.len() {
        for bit in 0..8 {
            let mut bytes = bytes.clone();
            bytes[index] ^= 1 << bit;
            let expected = match index {
                0..3 => LayoutError::NotALayout,
                3 => LayoutError::OtherVersion(bytes[3]),
                _ => LayoutError::OtherSeal,
            };
            assert_eq!(decode(&layout(), &bytes), Err(expected), "byte {index}");
        }
    }
}

#[test]
fn truncations_and_bytes_behind_the_end_are_noticed() {
    let bytes = layout().encode().unwrap();
    for length in 0..bytes.len() {
        assert!(decode(&layout(), &bytes[..length]).is_err(), "{length}");
    }
    let longer = [&bytes[..], &[0]].concat();
    assert_eq!(decode(&layout(), &longer), Err(LayoutError::OtherSeal));
}

/// What nobody can make: bytes that are wrong and have the right seal.
fn sealed(bytes: &[u8]) -> Result<Layout, LayoutError> {
    let seal = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes);
    let seal = Seal(seal.as_ref().try_into().unwrap());
    Layout::decode(bytes, &id(), &seal)
}

#[test]
fn no_changed_byte_behind_a_right_seal_panics() {
    let bytes = layout().encode().unwrap();
    for index in 4..bytes.len() {
        for value in 0..=u8::MAX {
            let mut bytes = bytes.clone();
            bytes[index] = value;
            drop(sealed(&bytes));
        }
        assert_eq!(
            sealed(&bytes[..index]),
            Err(LayoutError::Damaged),
            "{index}"
        );
    }
    let longer = [&bytes[..], &[0]].concat();
    assert_eq!(sealed(&longer), Err(LayoutError::Damaged));
}

#[test]
fn a_count_beyond_the_input_reserves_nothing() {
    let bytes = layout().encode().unwrap();
    // The keyspace's length, and that of the list of buckets.
    let bucket_count = 4 + 11 + 13 + 10 + 4 + 20 + 37 + 1;
    assert_eq!(&bytes[bucket_count..][..4], &3u32.to_le_bytes());
    for index in [4, bucket_count] {
        let mut bytes = bytes.clone();
        bytes[index..][..4].fill(0xff);
        assert_eq!(sealed(&bytes), Err(LayoutError::Damaged));
    }
}

#[test]
fn a_layout_of_another_identity_is_foreign() {
    let bytes = layout().encode().unwrap();
    let others = [
        LayoutId {
            table: TableName::new("metrics", "by_sensor"),
            ..id()
        },
        LayoutId {
            table: TableName::new("other", "by_Sensor"),
            ..id()
        },
        LayoutId {
            key: PartitionKey::new(*b"\x00\x03abd\x00"),
            ..id()
        },
        LayoutId {
            generation: Generation(8),
            ..id()
        },
    ];
    for other in others {
        let read = Layout::decode(&bytes, &other, &layout().seal().unwrap());
        assert_eq!(read, Err(LayoutError::Foreign));
    }
}

#[test]
fn what_is_no_layout_is_refused() {
    for bytes in [&b""[..], b"N", b"NLT", b"hello", &[0; 64]] {
        assert_eq!(decode(&layout(), bytes), Err(LayoutError::NotALayout));
    }
}

#[test]
fn too_large_values_are_refused_before_they_are_read() {
    let mut bytes = layout().encode().unwrap();
    bytes.resize(LAYOUT_BYTES_MAX + 1, 0);
    assert_eq!(decode(&layout(), &bytes), Err(LayoutError::TooLarge));
    let mut large = layout().unproven();
    large.strategy = "s".repeat(LAYOUT_BYTES_MAX);
    assert_eq!(large.prove(proof(3)).unwrap().encode(), None);
}

#[test]
fn unsound_buckets_are_never_proven() {
    let many = |count: usize| {
        let mut buckets = vec![bucket(&[b"a"], 1); count];
        buckets[0].first.clear();
        buckets
    };
    let unsound = [
        vec![],
        vec![bucket(&[b"a"], 1)],
        vec![bucket(&[], 1), bucket(&[], 1)],
        vec![bucket(&[], 1), bucket(&[b"a"], 1), bucket(&[b"b", b"c"], 1)],
        vec![bucket(&[], 1), bucket(&[b"a"], 1), bucket(&[], 1)],
        many(BUCKETS_MAX + 1),
    ];
    for buckets in unsound {
        let proof = proof(buckets.len());
        assert_eq!(unproven(buckets).prove(proof), Err(LayoutError::Damaged));
    }
    let sound = vec![bucket(&[], 1), bucket(&[b"a"], 1)];
    let other = unproven(sound).prove(proof(3));
    assert_eq!(other, Err(LayoutError::Damaged), "a proof of other buckets");
    let largest = unproven(many(BUCKETS_MAX))
        .prove(proof(BUCKETS_MAX))
        .unwrap();
    let bytes = largest.encode().unwrap();
    assert_eq!(decode(&largest, &bytes), Ok(largest));
}

#[test]
fn the_checksum_and_the_seal_tell_layouts_apart() {
    let mut other = layout().unproven();
    other.buckets[1].row_count += 1;
    assert_ne!(layout().checksum(), other.checksum());
    let other = other.prove(proof(3)).unwrap();
    assert_ne!(layout().seal(), other.seal());
    let later = Proof {
        as_of: 1_700_000_001,
        ..proof(3)
    };
    let later = layout().prove(later).unwrap();
    assert_ne!(layout().seal(), later.seal());
    assert_eq!(layout().unproven().encode(), None);
}

#[test]
fn the_shared_key_names_version_cluster_table_key_and_generation() {
    assert_eq!(
        id().shared_key("Test Cluster/narrows"),
        "narrows:v2:Test Cluster/narrows:layout:metrics.by_Sensor:000361626300:7"
    );
}

#[test]
fn memory_grows_with_every_boundary() {
    let small = layout().bytes();
    let mut large = layout();
    large.buckets.push(bucket(&[&[0; 1000], b""], 1));
    assert!(large.bytes() > small + 1000);
}

#[test]
fn debug_shows_no_boundary_and_no_key() {
    let mut layout = layout();
    layout.key = PartitionKey::new(*b"\xee\xee");
    layout.buckets[1].first[0] = Box::new([238, 238]);
    let text = format!("{layout:?}");
    assert!(text.contains("2 values"), "{text}");
    assert!(!text.contains("238"), "{text}");
}
