use uext4::mkfs::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let mut o = MkfsOptions::new(Preset::Ext4);
    o.features.apply_list(&a[2]).unwrap();
    o.contents = DeviceContents::Zeroed;
    let t = std::time::Instant::now();
    if a[1] == "mem" {
        let d = uext4_device::MemDevice::new(60 << 40);
        format(&d, &o).unwrap();
        println!(
            "{:?} resident {} MiB",
            t.elapsed(),
            d.resident_bytes() >> 20
        );
    } else {
        let d = uext4_device::FileDevice::create(&a[1], 60 << 40).unwrap();
        let r = format(&d, &o).unwrap();
        println!("{:?} {}", t.elapsed(), r.superblock.features());
    }
}
