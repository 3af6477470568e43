//! A lane as a whole: what is run together, what is given up, and that each gets what is theirs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::alarm::Alarm;
use crate::batch::{Batch, Output};
use crate::fault::{Fault, Kind};
use crate::lane::Lane;
use crate::lane_job::tests::{caller, Caller};
use crate::lane_spec::tests::spec;
use crate::tables::Table;
use crate::tensor::Datatype;

const FAR: Duration = Duration::from_secs(60);

fn lane(more: &str) -> Lane {
    Lane::new(spec(more), Arc::new(Alarm::default()))
}

fn ask(lane: &Lane, first: usize, rows: usize) -> Caller {
    ask_for(lane, first, rows, FAR)
}

fn ask_for(lane: &Lane, first: usize, rows: usize, patience: Duration) -> Caller {
    let one = caller(first, rows, 0, 2, patience);
    assert!(lane.submit(&one.job).is_ok());
    one
}

/// Each row's first number, as the outputs `y` (FP32) and `z` (INT64).
fn answer(lane: &Lane, batch: &Batch) -> Result<(), Fault> {
    let firsts: Vec<f32> = batch.arrays[0]
        .bytes()
        .chunks_exact(8)
        .map(|row| f32::from_le_bytes([row[0], row[1], row[2], row[3]]))
        .collect();
    let y: Vec<u8> = firsts.iter().flat_map(|first| first.to_le_bytes()).collect();
    let z: Vec<u8> = firsts.iter().flat_map(|first| (*first as i64).to_le_bytes()).collect();
    let shape = vec![firsts.len() as u64];
    let outputs =
        [Output::new(Datatype::Fp32, shape.clone(), &y).unwrap(), Output::new(Datatype::Int64, shape, &z).unwrap()];
    lane.answer(batch.number, &outputs)
}

fn firsts(one: &Caller) -> Vec<i64> {
    let tensors = one.told.recv_timeout(FAR).unwrap().unwrap();
    let eight = |bytes: &[u8]| {
        i64::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7]])
    };
    tensors[1].data.chunks_exact(8).map(eight).collect()
}

fn fault(one: &Caller) -> Kind {
    one.told.recv_timeout(FAR).unwrap().unwrap_err().kind
}

fn figure(lane: &Lane, name: &str) -> usize {
    Table::read(&lane.figures()).unwrap().get(name).count()
}

fn failed(lane: &Lane, name: &str) -> usize {
    Table::read(&lane.figures()).unwrap().get("failed").get(name).count()
}

#[test]
fn each_gets_its_own_rows() {
    let lane = lane("");
    let asked = [ask(&lane, 10, 1), ask(&lane, 20, 3), ask(&lane, 30, 9)];
    let mut sizes = Vec::new();
    while figure(&lane, "ok") < 3 {
        let batch = lane.take().unwrap();
        sizes.push(batch.rows);
        answer(&lane, &batch).unwrap();
    }
    assert_eq!(sizes, [4, 4, 4, 1]);
    assert_eq!(firsts(&asked[0]), [10]);
    assert_eq!(firsts(&asked[1]), [20, 21, 22]);
    assert_eq!(firsts(&asked[2]), (30..39).collect::<Vec<i64>>());
}

#[test]
fn what_has_expired_or_left_is_not_run() {
    let lane = lane("");
    let (late, left) = (ask_for(&lane, 1, 1, Duration::default()), ask(&lane, 2, 1));
    left.gone.store(true, std::sync::atomic::Ordering::Relaxed);
    let good = ask(&lane, 3, 1);
    let batch = lane.take().unwrap();
    assert_eq!(batch.rows, 1);
    answer(&lane, &batch).unwrap();
    assert_eq!((fault(&late), firsts(&good)), (Kind::Expired, vec![3]));
    assert_eq!((failed(&lane, "ExpiredError"), failed(&lane, "CancelledError")), (1, 1));
}

#[test]
fn a_look_answers_what_is_late_even_while_it_is_being_run() {
    let lane = lane("");
    let running = ask_for(&lane, 1, 1, Duration::from_secs(5));
    let batch = lane.take().unwrap();
    let waiting = ask_for(&lane, 2, 9, Duration::from_secs(5));
    assert!(lane.sweep(Instant::now()).unwrap() <= Instant::now() + Duration::from_secs(5));
    lane.sweep(Instant::now() + Duration::from_secs(6));
    assert_eq!((fault(&running), fault(&waiting)), (Kind::Expired, Kind::Expired));
    assert_eq!(figure(&lane, "waiting"), 0);
    answer(&lane, &batch).unwrap();
    assert_eq!(figure(&lane, "ok"), 0);
}

#[test]
fn a_model_that_hangs_is_said_to_and_recovers() {
    let lane = lane("");
    let one = ask(&lane, 1, 1);
    let batch = lane.take().unwrap();
    lane.sweep(Instant::now() + Duration::from_secs(61));
    // Its own deadline has passed too.
    assert!(matches!(fault(&one), Kind::Expired | Kind::Unavailable));
    let other = caller(2, 1, 0, 2, FAR);
    assert_eq!(lane.submit(&other.job).err().map(|refused| refused.fault.kind), Some(Kind::Unavailable));
    answer(&lane, &batch).unwrap();
    let third = ask(&lane, 3, 1);
    answer(&lane, &lane.take().unwrap()).unwrap();
    assert_eq!(firsts(&third), [3]);
}

#[test]
fn a_full_queue_refuses() {
    let lane = lane(r#","queue":1"#);
    let _one = ask(&lane, 1, 1);
    let other = caller(2, 1, 0, 2, FAR);
    let refused = lane.submit(&other.job).err().unwrap();
    assert_eq!((refused.fault.kind, refused.closed), (Kind::Busy, false));
    assert!(refused.fault.retry_after >= 1);
}

#[test]
fn outputs_that_do_not_fit_fail_each_by_itself() {
    let lane = lane("");
    let asked = [ask(&lane, 1, 1), ask(&lane, 2, 1)];
    let wrong = |number| {
        let outputs = [Datatype::Fp32, Datatype::Int64].map(|datatype| Output::new(datatype, vec![0], &[]).unwrap());
        lane.answer(number, &outputs)
    };
    assert!(wrong(lane.take().unwrap().number).is_err());
    assert!(asked[0].told.try_recv().is_err());
    answer(&lane, &lane.take().unwrap()).unwrap();
    assert_eq!(firsts(&asked[0]), [1]);
    assert!(wrong(lane.take().unwrap().number).is_err());
    assert_eq!(fault(&asked[1]), Kind::Model);
}

#[test]
fn a_closed_lane_runs_what_it_has_and_ends() {
    let lane = Arc::new(lane(""));
    let one = ask(&lane, 1, 6);
    let other = lane.clone();
    let runner = std::thread::spawn(move || {
        while let Some(batch) = other.take() {
            answer(&other, &batch).unwrap();
        }
    });
    assert!(lane.close(FAR));
    runner.join().unwrap();
    assert_eq!(firsts(&one), [1, 2, 3, 4, 5, 6]);
    let late = caller(2, 1, 0, 2, FAR);
    assert!(lane.submit(&late.job).err().unwrap().closed);
}

#[test]
fn a_lane_that_must_end_fails_the_rest() {
    let lane = lane("");
    let running = ask(&lane, 1, 1);
    let batch = lane.take().unwrap();
    let waiting = ask(&lane, 2, 1);
    assert!(!lane.close(Duration::default()));
    assert_eq!((fault(&running), fault(&waiting)), (Kind::Unavailable, Kind::Unavailable));
    answer(&lane, &batch).unwrap();
    assert!(lane.close(FAR));
    assert!(lane.take().is_none());
}

#[test]
fn many_threads_lose_nothing_and_give_nothing_twice() {
    let lane = Arc::new(lane(r#","queue":100000,"queue_bytes":100000000,"instances":2,"delay_us":100"#));
    let runners: Vec<_> = (0..2)
        .map(|_| {
            let lane = lane.clone();
            std::thread::spawn(move || {
                while let Some(batch) = lane.take() {
                    if batch.number % 7 == 0 {
                        lane.fail(batch.number, &Fault::new(Kind::Unavailable, "away"));
                    } else {
                        answer(&lane, &batch).unwrap();
                    }
                }
            })
        })
        .collect();
    let askers: Vec<_> = (0..4)
        .map(|asker| {
            let lane = lane.clone();
            std::thread::spawn(move || {
                let mut answered = 0;
                for number in 0..200 {
                    let (first, rows) = (asker * 10_000 + number * 10, number % 9 + 1);
                    let one = ask(&lane, first, rows);
                    match one.told.recv_timeout(FAR).unwrap() {
                        Ok(tensors) => {
                            assert_eq!(tensors[0].data.len(), rows * 4);
                            assert_eq!(tensors[1].data[..8], (first as i64).to_le_bytes());
                            answered += 1;
                        }
                        Err(fault) => assert_eq!(fault.kind, Kind::Unavailable),
                    }
                    assert!(one.told.try_recv().is_err());
                }
                answered
            })
        })
        .collect();
    let answered: usize = askers.into_iter().map(|asker| asker.join().unwrap()).sum();
    assert!(lane.close(FAR));
    for runner in runners {
        runner.join().unwrap();
    }
    assert_eq!(figure(&lane, "ok"), answered);
    assert_eq!(answered + failed(&lane, "UnavailableError"), 800);
}
