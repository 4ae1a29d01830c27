//! `demo`: what a newcomer sees first.

use crate::support::Home;

#[test]
fn the_demo_needs_nothing_and_shows_a_real_fan_out() {
    let home = Home::new();
    std::fs::remove_file(home.path().join("drawloom.yaml")).expect("it is there");
    let ran = home.run(&["demo"]).exits(0);
    for chapter in ["warp", "weft", "shed", "heddle", "drawcord", "cloth"] {
        assert!(ran.stdout.contains(&format!("{chapter}.md: ")), "{ran:?}");
    }
    assert!(ran.stdout.contains("curl -s http://127.0.0.1:8787/v1/runs"), "{ran:?}");
    assert!(!home.data().exists(), "it keeps away from the data directory");
}

#[test]
fn the_demo_in_json_has_its_children_in_the_order_they_were_asked_for() {
    let json = Home::new().run(&["demo", "--json"]).exits(0).json();
    assert_eq!(json["run"]["status"], "completed");
    let texts: Vec<&str> =
        json["children"].as_array().expect("children").iter().filter_map(|run| run["final_text"].as_str()).collect();
    let names: Vec<&str> = texts.iter().filter_map(|text| text.split('.').next()).collect();
    assert_eq!(names, ["warp", "weft", "shed", "heddle", "drawcord", "cloth"]);
}
