//! The claim alone: renewals, numbers of other hosts, errors of the device.

use super::*;
use uext4_device::{Cause, Fault, Faulty, MemDevice, Operation, User, When};
use uext4_mkfs::{MkfsOptions, Preset, format};

/// A held claim, on a file system with MMP.
fn held_claim() -> (Arc<Faulty>, Arc<Claim>) {
    let memory = Arc::new(MemDevice::new(16 << 20));
    let mut options = MkfsOptions::new(Preset::Ext4);
    options.features.insert(Feature::MMP);
    format(&*memory, &options).expect("mkfs of a plain image");
    let faulty = Arc::new(Faulty::new(memory));
    let device: Arc<dyn BlockDevice> = faulty.clone();
    let superblock = read_superblock(&*device, None).expect("it is sound");
    let clock: Arc<dyn Clock> = Arc::new(uext4_sync::RealClock::new());
    let claim = Claim::new(&device, &superblock, &clock).expect("it is sound");
    let claim = claim.expect("it has MMP");
    {
        let mut written = claim.written.lock();
        written.mmp.sequence = 77;
        written.mmp.check_interval = 5;
        claim.slot.write(&written.mmp).expect("no fault yet");
        claim.extend(now_ns(), 5);
    }
    (faulty, claim)
}

fn fail(device: &Faulty, operation: Operation) {
    let (when, cause) = (When::Always, Cause::Io);
    device.arm(Fault {
        operation,
        when,
        cause,
    });
}

/// Expires the lease, as if the process had been stopped.
fn let_lease_end(claim: &Claim) {
    claim.end_ns.store(0, Ordering::Release);
}

fn another_host(claim: &Claim) -> Mmp {
    let other = Mmp {
        node_name: field("elsewhere"),
        device_name: field("sdz"),
        sequence: 4711,
        ..claim.slot.read().expect("no fault")
    };
    claim.slot.write(&other).expect("no fault");
    other
}

#[track_caller]
fn assert_taken(answer: std::result::Result<(), DeviceError>) {
    let host = User::Host {
        node: "elsewhere".into(),
        device: "sdz".into(),
    };
    match answer {
        Err(DeviceError::Taken { user }) => assert_eq!(user, host),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_lease_is_shorter_than_another_host_waits() {
    for check in [5, 10, 59, 60, 61, 300, u16::MAX] {
        assert!(lease(check).as_secs() < wait_seconds(check), "{check}");
        assert!(lease(check).as_secs() >= u64::from(check), "{check}");
    }
}

#[test]
fn a_claim_that_is_over_is_renewed_before_a_write() {
    let (_device, claim) = held_claim();
    claim.check().unwrap();
    assert_eq!(claim.slot.read().unwrap().sequence, 77, "the lease goes on");
    let_lease_end(&claim);
    claim.check().unwrap();
    assert_eq!(claim.slot.read().unwrap().sequence, 78);
    claim.renew(Renewal::Now).unwrap();
    assert_eq!(claim.slot.read().unwrap().sequence, 79);
    claim.give_back().unwrap();
    assert_eq!(claim.slot.read().unwrap().sequence, MMP_SEQ_CLEAN);
}

#[test]
fn a_claim_that_another_host_took_is_lost_for_good() {
    for number in [4711, MMP_SEQ_CLEAN, MMP_SEQ_FSCK] {
        let (_device, claim) = held_claim();
        let mut other = another_host(&claim);
        other.sequence = number;
        claim.slot.write(&other).unwrap();
        let_lease_end(&claim);
        let error = claim.check().unwrap_err();
        assert!(matches!(error, DeviceError::Taken { .. }), "{error}");
        assert_eq!(claim.slot.read().unwrap(), other, "it is left alone");
        // Whatever the block contains later.
        let written = claim.written.lock().mmp.clone();
        claim.slot.write(&written).unwrap();
        assert!(claim.check().is_err() && claim.renew(Renewal::Now).is_err());
        assert!(claim.give_back().is_err());
        assert_eq!(claim.slot.read().unwrap(), written);
    }
}

#[test]
fn a_renewal_notices_another_host_within_the_lease() {
    let (_device, claim) = held_claim();
    let other = another_host(&claim);
    claim.check().expect("the other host still waits");
    assert!(claim.renew(Renewal::Now).is_err());
    assert_taken(claim.check());
    assert!(claim.give_back().is_err());
    assert_eq!(claim.slot.read().unwrap(), other);
}

#[test]
fn without_a_renewal_nothing_is_written_and_later_it_goes_on() {
    for operation in [Operation::Read, Operation::Write, Operation::Flush] {
        let (device, claim) = held_claim();
        fail(&device, operation);
        assert!(claim.renew(Renewal::Now).is_err(), "{operation:?}");
        claim.check().expect("the lease is not over");
        let_lease_end(&claim);
        let error = claim.check().unwrap_err();
        assert!(matches!(error, DeviceError::Io { .. }), "{error}");
        device.disarm();
        // The number written without a flush may be on the device or not.
        claim.check().unwrap();
        claim.give_back().unwrap();
    }
}
