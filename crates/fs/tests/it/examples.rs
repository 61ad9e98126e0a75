//! The examples run, and their image is sound.

#[path = "../../examples/check_mounted.rs"]
#[allow(dead_code, reason = "its main function")]
mod check_mounted;
#[path = "../../examples/list_tree.rs"]
#[allow(dead_code, reason = "its main function")]
mod list_tree;
#[path = "../../examples/make_image.rs"]
#[allow(dead_code, reason = "its main function")]
mod make_image;
#[path = "../../examples/threads.rs"]
#[allow(dead_code, reason = "its main function")]
mod threads;

use uext4_testkit::oracle;

#[test]
fn an_image_is_made_filled_by_threads_and_listed() {
    let scratch = oracle::scratch_dir().expect("a scratch directory");
    let image = scratch.path().join("disk.img");
    make_image::run(&image).unwrap();
    assert!(make_image::run(&image).is_err(), "it exists");
    threads::run(&image).unwrap();
    oracle::assert_clean(&image);
    let report = check_mounted::run(&image).unwrap();
    assert!(report.is_clean() && report.n_inodes > 400, "{report:?}");
    oracle::assert_clean(&image);
    let mut listed = Vec::new();
    list_tree::run(&image, &mut listed).unwrap();
    let listed = String::from_utf8(listed).unwrap();
    let has = |line: &str| listed.lines().any(|one| one == line);
    assert!(has("0644       14 srv/www/index.html"), "{listed}");
    assert!(has("0644        2 thread-3/99"), "{listed}");
    let files = listed.lines().filter(|line| line.contains("thread-"));
    assert_eq!(files.count(), 4 * 101);
}
