"""The simulated kernel and GPU hardware of a lab node (gpusmith lab; nothing here drives a real GPU).

The programs of a node start in ``programs.py``, whichever name they are called by. Standard library only: a node has
nothing else. The controller imports the same package for what it says about faults (``fault.registry()``).

Files: /var/lib/simgpu/hardware.json (what the machine has), /var/lib/simgpu/faults.json (faults that are in),
/run/simgpu/live (live state for the simulated libraries, format below; same inode until reboot).

Live state: a line "simgpu-live/1 CHECKSUM LENGTH", then LENGTH bytes of text (key=value lines, "gpu ..." and
"xid ..." lines), padded with NUL to 64 KiB and always written as a whole. CHECKSUM is FNV-1a (64 bit) of the text:
a reader that sees half a write reads again. Clients hold shared OFD locks on bytes of that file, one byte per
module (``modules.BYTES``): these are the reference counts, so that "in use" needs no look at /proc/*/fd.
"""
