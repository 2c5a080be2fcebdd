from bridge.maintenance.findings import Finding as Finding
from bridge.maintenance.fsck import FsckResult as FsckResult
from bridge.maintenance.fsck import check_archive as check_archive
from bridge.maintenance.fsck import repair_archive as repair_archive
from bridge.maintenance.restore import restore_archive as restore_archive
