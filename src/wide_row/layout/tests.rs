//! Layouts round trip, and nothing else is ever taken for one.

use twox_hash::XxHash3_64;

use super::*;

fn bucket(first: &[&[u8]], row_count: u64) -> Bucket {
    Bucket {
        first: first.iter().map(|value| (*value).into()).collect(),
        row_count,
        byte_count: row_count * 100,
    }
}

fn layout() -> Layout {
    Layout {
        table: TableName::new("metrics", "by_Sensor"),
        key: PartitionKey::new(*b"\x00\x03abc\x00"),
        generation: Generation(7),
        split_table: "wide_by_Sensor_1".into(),
        strategy: "EventBucketPartitionSplitStrategy".into(),
        buckets: vec![
            bucket(&[], 3),
            bucket(&[b"2024", b""], 4),
            bucket(&[b"2025", b"x"], u64::MAX / 100),
        ],
    }
}

/// These bytes with a right check, so that only their contents can be wrong.
fn checked(mut body: Vec<u8>) -> Vec<u8> {
    body.extend_from_slice(&XxHash3_64::oneshot(&body).to_le_bytes());
    body
}

#[test]
fn reads_what_it_wrote() {
    let one_bucket = Layout {
        buckets: vec![bucket(&[], 0)],
        key: PartitionKey::new([]),
        generation: Generation(i32::MIN),
        ..layout()
    };
    for layout in [layout(), one_bucket] {
        let bytes = layout.encode().unwrap();
        assert_eq!(Layout::decode(&bytes, &layout.id()), Ok(layout));
    }
}

#[test]
fn the_encoding_stays_what_it_is() {
    // Other proxies of a fleet and of later versions read these bytes: if this fails, the version must change.
    let layout = Layout {
        table: TableName::new("k", "t"),
        key: PartitionKey::new(*b"p"),
        generation: Generation(2),
        split_table: "w".into(),
        strategy: "s".into(),
        buckets: vec![bucket(&[], 1), bucket(&[b"c"], 2)],
    };
    let body: &[&[u8]] = &[
        b"NLT\x01",
        b"\x01\0\0\0k\x01\0\0\0t\x01\0\0\0p\x02\0\0\0",
        b"\x01\0\0\0w\x01\0\0\0s\x02\0\0\0",
        b"\0\0\0\0\x01\0\0\0\0\0\0\0\x64\0\0\0\0\0\0\0",
        b"\x01\0\0\0\x01\0\0\0c\x02\0\0\0\0\0\0\0\xc8\0\0\0\0\0\0\0",
    ];
    assert_eq!(layout.encode().unwrap(), checked(body.concat()));
}

#[test]
fn every_flipped_bit_is_noticed() {
    let id = layout().id();
    let bytes = layout().encode().unwrap();
    for index in 0..bytes.len() {
        for bit in 0..8 {
            let mut bytes = bytes.clone();
            bytes[index] ^= 1 << bit;
            let expected = match index {
                0..3 => LayoutError::NotALayout,
                3 => LayoutError::OtherVersion(bytes[3]),
                _ => LayoutError::Damaged,
            };
            assert_eq!(Layout::decode(&bytes, &id), Err(expected), "byte {index}");
        }
    }
}

#[test]
fn no_changed_byte_behind_a_right_check_panics() {
    // Not every change can be seen then (a count of rows is just another count), but none may panic.
    let id = layout().id();
    let bytes = layout().encode().unwrap();
    let body = &bytes[..bytes.len() - 8];
    let mut noticed = 0;
    for index in 0..body.len() {
        for value in 0..=u8::MAX {
            let mut body = body.to_vec();
            body[index] = value;
            noticed += usize::from(Layout::decode(&checked(body), &id).is_err());
        }
    }
    assert!(noticed > body.len() * 128, "only {noticed} were noticed");
}

#[test]
fn every_truncation_is_noticed() {
    let id = layout().id();
    let bytes = layout().encode().unwrap();
    for length in 0..bytes.len() {
        assert!(Layout::decode(&bytes[..length], &id).is_err(), "{length}");
        let body = &bytes[..length.min(bytes.len() - 9)];
        assert!(Layout::decode(&checked(body.to_vec()), &id).is_err());
    }
}

#[test]
fn bytes_behind_the_end_are_noticed() {
    let bytes = layout().encode().unwrap();
    let mut longer = bytes[..bytes.len() - 8].to_vec();
    longer.push(0);
    let read = Layout::decode(&checked(longer), &layout().id());
    assert_eq!(read, Err(LayoutError::Damaged));
}

#[test]
fn a_layout_of_another_identity_is_foreign() {
    let bytes = layout().encode().unwrap();
    let id = layout().id();
    let others = [
        LayoutId {
            table: TableName::new("metrics", "by_sensor"),
            ..id.clone()
        },
        LayoutId {
            table: TableName::new("other", "by_Sensor"),
            ..id.clone()
        },
        LayoutId {
            key: PartitionKey::new(*b"\x00\x03abd\x00"),
            ..id.clone()
        },
        LayoutId {
            generation: Generation(8),
            ..id
        },
    ];
    for other in others {
        assert_eq!(Layout::decode(&bytes, &other), Err(LayoutError::Foreign));
    }
}

#[test]
fn a_later_version_is_named_and_not_read() {
    let bytes = layout().encode().unwrap();
    let mut body = bytes[..bytes.len() - 8].to_vec();
    body[3] = 2;
    let read = Layout::decode(&checked(body), &layout().id());
    assert_eq!(read, Err(LayoutError::OtherVersion(2)));
}

#[test]
fn what_is_no_layout_is_refused() {
    let id = layout().id();
    for bytes in [&b""[..], b"N", b"NLT", b"hello", &[0; 64]] {
        assert_eq!(Layout::decode(bytes, &id), Err(LayoutError::NotALayout));
    }
}

#[test]
fn too_large_values_are_refused_before_they_are_read() {
    let id = layout().id();
    let mut bytes = layout().encode().unwrap();
    bytes.resize(LAYOUT_BYTES_MAX + 1, 0);
    assert_eq!(Layout::decode(&bytes, &id), Err(LayoutError::TooLarge));
    let large = Layout {
        strategy: "s".repeat(LAYOUT_BYTES_MAX),
        ..layout()
    };
    assert_eq!(large.encode(), Err(LayoutError::TooLarge));
}

#[test]
fn unsound_buckets_are_neither_written_nor_read() {
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
        let layout = Layout {
            buckets,
            ..layout()
        };
        assert_eq!(layout.encode(), Err(LayoutError::Damaged));
        let bytes = checked(layout.body());
        let read = Layout::decode(&bytes, &layout.id());
        assert_eq!(read, Err(LayoutError::Damaged));
    }
    let largest = Layout {
        buckets: many(BUCKETS_MAX),
        ..layout()
    };
    let bytes = largest.encode().unwrap();
    assert_eq!(Layout::decode(&bytes, &largest.id()), Ok(largest));
}

#[test]
fn a_count_beyond_the_input_reserves_nothing() {
    let bytes = layout().encode().unwrap();
    // The keyspace's length, and that of the list of buckets.
    let bucket_count = 4 + 11 + 13 + 10 + 4 + 20 + 37;
    assert_eq!(&bytes[bucket_count..][..4], &3u32.to_le_bytes());
    for index in [4, bucket_count] {
        let mut body = bytes[..bytes.len() - 8].to_vec();
        body[index..][..4].fill(0xff);
        let read = Layout::decode(&checked(body), &layout().id());
        assert_eq!(read, Err(LayoutError::Damaged));
    }
}

#[test]
fn the_checksum_is_that_of_the_encoding_and_tells_layouts_apart() {
    let bytes = layout().encode().unwrap();
    assert_eq!(bytes[bytes.len() - 8..], layout().checksum().to_le_bytes());
    let mut other = layout();
    other.buckets[1].row_count += 1;
    assert_ne!(layout().checksum(), other.checksum());
}

#[test]
fn the_shared_key_names_version_table_key_and_generation() {
    assert_eq!(
        layout().id().shared_key(),
        "narrows:v1:layout:metrics.by_Sensor:000361626300:7"
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
