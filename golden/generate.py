"""Pack the golden files with plain struct: what FORMAT.md says, spelt a second time, without the library.

Run `python golden/generate.py FOLDER` to write the files; a test compares them with those beside this script. Each file
has a twin in JSON with the values that a reader must return. Nothing in a golden file depends on the version of a
library: the compressed blocks are assembled by hand.
"""

# ruff: noqa: INP001  (a script beside its output, not a package)
from __future__ import annotations

import base64
import json
import struct
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import crc32c
import xxhash

# struct codes of the 13 dtypes; bf16 is kept as the 16 bits that it is.
CODES = {
    "f64": "d",
    "f32": "f",
    "f16": "e",
    "bf16": "H",
    "i64": "q",
    "i32": "i",
    "i16": "h",
    "i8": "b",
    "u64": "Q",
    "u32": "I",
    "u16": "H",
    "u8": "B",
    "bool": "?",
}


# Three gray JPEGs of 16 x 16 pixels, and an MP4 of four frames (H.264, lossless, gray, key frames 0 and 2).
JPEGS = [
    base64.b85decode(text)
    for text in (
        (
            "|JeWF01!$>Nk#wx0RR9200961|JwjV01XKW3knDg3knMk4h;_zAQcl55)&sJ9v2`kDKRiEDJ?8BI!Zn>HbyrrEkIX6ModmpQ&KWMT47pHU`k"
            "O^PyfIG3kU!Z01yEI5di<h02KfM0RR910000000000000061^>hV7!Uvg0{{R30000000000000041tBs2+5iXv0RR9$038~(P_{K}qFid(L"
            "dey!kN?>"
        ),
        (
            "|JeWF01!$>Nk#wx0RR9200961|JwjV01XKW3knDg3knMk4h;_zAQcl55)&sJ9v2`kDKRiEDJ?8BI!Zn>HbyrrEkIX6ModmpQ&KWMT47pHU`k"
            "O^PyfIG3kU!Z01yEI5di<h02KfM0RR910000000000000052LHqW7!Uvg0{{R30000000000000041tBs2+5iXv0RR9$00uQ|qOvt?pt#kti"
            "rCe%kN?>"
        ),
        (
            "|JeWF01!$>Nk#wx0RR9200961|JwjV01XKW3knDg3knMk4h;_zAQcl55)&sJ9v2`kDKRiEDJ?8BI!Zn>HbyrrEkIX6ModmpQ&KWMT47pHU`k"
            "O^PyfIG3kU!Z01yEI5di<h02TlN0RaF20000000000000061O@-Z03Hwk0RsgA0RR91000000000100adB0}>%IQ4#;z00;pA002J#jy1P5m"
            "d3W`mRxIYX&}1kv@~7m7r6@-DF&=*`bi`J0Q8avn_vIg"
        ),
    )
]
MP4 = base64.b85decode(
    "0000WW^{RQX>)IF00062X>)IFX>)HfVRmCNZE!R(00008W^!d^0006DZDe6|0001?Wr&2Y*W<tdF<6mdemp%O=Db0qORr>Qcqv1vVxX`X5CT"
    "o4eY1pg(i3&mKXYcXDH3pOncgm&+s)Rss?UToa;)~?{0^JSl1U_fk*|%?NhEy>>Fp$vNct}?he;%n@e>3GM_q8z4_el#cS7W=J-9waq7l*8T"
    "r`8$wW@ewxhl_Y55u~YZMNH9y*XoTw%Yd(XC#tIAI;ZVNhFfZfdBvi2tk@VKu~M`@Bjb+mt}~8E7#+|05MpC#EH10L}6d$=q!@RFJrsudzZq"
    "6gxz%y+}W&(M4THYcZ;U>^L4Fiv*8Tft39|s1E%t%l1U$=YvXj1NgqP`dr2gcK8wrY(n%zIM8N^k*IYD%*0ri#(77tlZV!=YgmiV+4IuTcYM"
    "vNwO0(O8@b0A>ZMN61PFUM*w!OpI$t03T^L5seNhGsj00029L7F;i;zN%B0D;kY<)!d8?im{pI~rp5R8!erTyiuW4j_z2)rrGfsXIfDrfn`V"
    "dL3?@BUZNzro8C)dz1xG_HKjPw{Qtc+x{t>INNQu|G|*l`?lL{u7h9Xmm6)i*Fl=Es(BEXFC-qdtxz3zJL9iP2tEswJ+ATza`HjzTGaq|_J5"
    "UUw+FzB{2=Khl0E`1X>O89BjUwLb00L{S44mQNLA;SM#Fd_LvSQ&5@av{00RYWZ*O)0003-lc4%Y(00000000000000000Za%00EEy0RR920"
    "000000000000000RR910000000000000000RR9100000000000000$000000000000000000000000000000000000006200LBWa$#!#003N"
    "cYiMKu000930000000000000310000000EEy000000000000000000000RR910000000000000000RR9100000000000000$000005C8xG5C"
    "8xG001OqWOQ=?0010iY;$w~000000003100EEy000000RR9100GQxWNBdl001CuWN2gn00000000000000004M+e01yCG!~g&Q001p$WNdN("
    "000000001XX=G&p000000000000011X=G(@NMUYdY-Mr)0004ZZE0?10000Kc5P^60000100000000000000aWNB_@0000SWO8L@00000000"
    "010000Cb#iPV000010003ub97>C00021b98fL00000000010001+VRmCN00000000010000000000000000000001yBW07w7;07w7;000000"
    "0961000000000000000000000000000000000000000O|Nj6005M^9V?zP-01E%%02OES01EoZ^dJBL0{|cZ00RPn;zY>-00n64z-!C=`1k+"
    "-000zXbaHe60000008l6Z04O{F000<sbaZn70000000031000C400aO4000<sbaQh6000000006200031000930010wbaP_>000000003100"
    "031000C400031001O&baQ$D0000000000000C4005-`000aC005f+006fD000zobYpJ-0000000031001xm002F8WOQKw001>@WprTx00000"
    "001FqWNdN(000000001OWNC6?aByq@000000000000008X>4<J"
)

# What the JPEGs show, by the exact integer transform that libjpeg has by default; compressed by zlib.
GRAY = base64.b85decode(
    "c-l46SxgcD9LMo`X>IjTt<{>9w(OWL)2W%7X5@tjDh@9+&?yOCC@P>pf(R;jpn?V-pn!Ovc%pb>iKga}$MTw{Yi@4#*aQ7vdj7op_Wl1aU%h"
    "Ge_=S_3UkElnB|DFI<@z1-=XS1$APg=sJ%=l}cI*BV8>e?Z7;Hi+HLqB7<L)CX`#0VJk$4h?QBWqnZ3gV&7yKa}xTsQk&jQ#h2opyHF0H9Ie"
    "`@QD@W)^i)94&QRlU;E%E8S$C=#DSVe-mq8e6PvUET*^aD;Rka9wkUjibA7a8x`gn*pq7>veGTM1|prWClklu5a!ca`r%m!j!B$zDU~CKA>~"
    "+3=GE+Gw1~Z;O>!01QHz$Q&>giz*_yRFDfFAl*#0lN#rfPqqD|<&=^7*jZ;`9Rdx*Mzb;!mvvolPV4@RKY3$<4I;Ewxqq|RV6h4{4;FZ=WG*"
    "))5o`GR_LI#Z^gngYaUwI(W*n}i1lVAS1vAxgU1sF$6%VooSb@$-ww@7qUd}?MM54cUMbN50;K&l*`P|~338J$8PL!%Q?X{=(ARM|eDH~65!"
    "V<A<3d9}Q?S7%u8M*~yYe6dW`IXE%D5)u)Yl*#0mNEL1UV}|98u$YfzI!9R1pza=?GOq7L#RBunB~7isOIv$50-4Shh-I2C;I-YOgygJGkV?"
    "_1)qh#pKKe~0=j02;4XVE3>4o*(({ndZR5+eUq4P?rA&_ng;fsbxpt1xa83dY`gMP6j3X?0UR<!o%42%E!Nov(yLzBkuA>qIbUWrr=JiD}ki"
    "3Vm1L=7t7`L!KvTyhqRFRE6yX~*Z5xA*a|k0TJ*wsZ|o8`pP_3Gj4<6|zQ6$JDCv+xZ?TJ(pV|k*f^@{Y#stKTTvRySSoO-7f#JrJFGwoMpk"
    "&!IU2DnDOXv|HMRxr<19=w8puGy^}-J0SlfEri^Hhj|`ipRckIh9i*C=Uo>9){qx{bVHupIe|%=?*UrV6>C(f0lxUCM"
)


@dataclass(frozen=True)
class Block:
    """One block as it is stored: codec flags, stored bytes, and the bytes they decode to."""

    name: str
    data: bytes
    content_type: int = 0
    flags: int = 0
    stored: bytes | None = None


def values(dtype: str, numbers: list[Any]) -> bytes:
    """Pack numbers little-endian."""
    return struct.pack(f"<{len(numbers)}{CODES[dtype]}", *numbers)


def pack(blocks: list[Block], *, alignment: int, flags: int, terminated: bool) -> bytes:
    """Lay out one container of role 5 with the blocks in the given order."""
    strings, offsets = b"", []
    for block in blocks:
        offsets.append(len(strings))
        strings += block.name.encode() + (b"\0" if terminated else b"")
    table = 64 + 48 * len(blocks)
    section = -(-(table + len(strings)) // alignment) * alignment
    index, data = b"", b""
    for block, name_offset in zip(blocks, offsets, strict=True):
        data += bytes(-len(data) % alignment)
        stored = block.data if block.stored is None else block.stored
        name = block.name.encode()
        index += struct.pack("<QIHH", xxhash.xxh64_intdigest(name), name_offset, len(name), block.flags)
        index += struct.pack("<QQQ", section + len(data), len(stored), len(block.data))
        index += struct.pack("<IHH", crc32c.crc32c(block.data), block.content_type, 0)
        data += stored
    header = struct.pack("<4sBBHBBHI", b"SHRD", 2, 5, flags, alignment, 0, 48, len(blocks))
    header += struct.pack("<QQQQ16x", table, section, 0, section + len(data))
    front = header + index + strings
    return front + bytes(section - len(front)) + data


def meta(episode: dict[str, Any], channels: dict[str, Any], wshard: dict[str, Any]) -> list[Block]:
    """Return the three JSON blocks."""
    parts = {"meta/wshard": wshard, "meta/episode": episode, "meta/channels": channels}
    return [Block(name, json.dumps(value).encode(), content_type=2) for name, value in parts.items()]


def lane(dtype: str, shape: list[int], numbers: list[Any]) -> dict[str, Any]:
    """Return the twin's record of one lane; shape with T in front."""
    return {"dtype": dtype, "shape": shape, "values": numbers}


def twin(episode: dict[str, Any], lanes: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return what a reader must say about a file."""
    return {"episode": episode, "lanes": lanes, **more}


def simple() -> tuple[bytes, dict[str, Any]]:
    """Pack an ordinary episode with terminated names, aligned to 64 bytes."""
    state = [0.5 * i for i in range(40)]
    ctrl = [-float(i) for i in range(20)]
    reward = [i / 4 for i in range(10)]
    done = [i == 9 for i in range(10)]
    about = {"episode_id": "golden-simple", "env_id": "Reach-v1", "length_T": 10, "metadata": {"success": True}}
    channels = [
        {"id": "state", "dtype": "f32", "shape": [4], "signal_block": "signal/state"},
        {"id": "ctrl", "dtype": "f32", "shape": [2], "signal_block": "action/ctrl"},
    ]
    blocks = [
        *meta(about | {"timebase": {"type": "ticks", "tick_hz": 29.97}}, {"channels": channels}, {"format": "W-SHARD"}),
        Block("signal/state", values("f32", state)),
        Block("action/ctrl", values("f32", ctrl)),
        Block("reward", values("f32", reward)),
        Block("done", values("bool", done)),
    ]
    lanes = {
        "signal/state": lane("f32", [10, 4], state),
        "action/ctrl": lane("f32", [10, 2], ctrl),
        "reward": lane("f32", [10], reward),
        "done": lane("bool", [10], done),
    }
    return pack(blocks, alignment=64, flags=0xA2, terminated=True), twin(about, lanes, tick_hz=29.97)


def every_dtype() -> tuple[bytes, dict[str, Any]]:
    """Pack a lane of each dtype in the manner of the episode packages: packed names, flags 0, dt_ns truncated."""
    blocks, channels, lanes = [], [], {}
    for dtype, code in CODES.items():
        signed = code in "qihb"
        numbers: list[Any] = [True, False, True] if code == "?" else [-1 if signed else 1, 0, 127]
        numbers = [number / 2 for number in numbers] if code in "dfe" else numbers
        blocks.append(Block(f"signal/{dtype}", values(dtype, numbers)))
        channels.append({"id": dtype, "dtype": dtype, "shape": []})
        lanes[f"signal/{dtype}"] = lane(dtype, [3], numbers)
    about = {"episode_id": "golden-dtypes", "env_id": "", "length_T": 3}
    head = meta(about | {"timebase": {"type": "ticks", "dt_ns": 16666666}}, {"channels": channels}, {"version": 1})
    ordered = sorted([*head, *blocks], key=lambda block: block.name)
    return pack(ordered, alignment=32, flags=0, terminated=False), twin(about, lanes, tick_hz=60.0)


def compressed() -> tuple[bytes, dict[str, Any]]:
    """Pack a zstd frame of one run-length block and a raw lz4 block, both assembled by hand."""
    zeros = values("f32", [0.0] * 250)
    run = struct.pack("<I", 1 | 1 << 1 | len(zeros) << 3)[:3] + b"\0"  # last block, run length, size; the byte
    zstd = bytes.fromhex("28b52ffd") + b"\x60" + struct.pack("<H", len(zeros) - 256) + run
    pattern = values("f32", [1.5, -2.0])
    match = 8 * 123 - 4 - 15  # all but the first and the last pattern, less what token and match rule already say
    lz4 = bytes([0x8F]) + pattern + struct.pack("<H", 8) + b"\xff" * (match // 255) + bytes([match % 255])
    lz4 += bytes([0x80]) + pattern  # the format wants a block to end with literals
    about = {"episode_id": "golden-compressed", "env_id": "", "length_T": 125}
    channels = [{"id": "still", "dtype": "f32", "shape": [2]}, {"id": "beat", "dtype": "f32", "shape": [2]}]
    blocks = [
        *meta(about | {"timebase": {"type": "ticks", "tick_hz": 0.5}}, {"channels": channels}, {}),
        Block("signal/still", zeros, flags=3, stored=zstd),
        Block("signal/beat", pattern * 125, flags=5, stored=lz4),
    ]
    lanes = {
        "signal/still": lane("f32", [125, 2], [0.0] * 250),
        "signal/beat": lane("f32", [125, 2], [1.5, -2.0] * 125),
    }
    return pack(blocks, alignment=64, flags=0xA2, terminated=True), twin(about, lanes, tick_hz=0.5)


def frames() -> tuple[bytes, dict[str, Any]]:
    """Pack a lane of three zstd frames, each one run of a byte, with the seek table that finds them."""
    stored, table, decoded = b"", b"", b""
    for byte, size in ((7, 400), (9, 400), (11, 300)):
        run = struct.pack("<I", 1 | 1 << 1 | size << 3)[:3] + bytes([byte])  # last block, run length, size; the byte
        frame = bytes.fromhex("28b52ffd") + b"\x60" + struct.pack("<H", size - 256) + run
        data = bytes([byte]) * size
        table += struct.pack("<III", len(frame), size, xxhash.xxh64_intdigest(data) & 0xFFFFFFFF)
        stored, decoded = stored + frame, decoded + data
    stored += struct.pack("<II", 0x184D2A5E, len(table) + 9) + table + struct.pack("<IBI", 3, 0x80, 0x8F92EAB1)
    about = {"episode_id": "golden-frames", "env_id": "", "length_T": 11}
    channels = [{"id": "beat", "dtype": "u8", "shape": [100], "signal_block": "signal/beat", "frame_steps": 4}]
    blocks = [
        *meta(about | {"timebase": {"type": "ticks", "tick_hz": 10}}, {"channels": channels}, {}),
        Block("signal/beat", decoded, flags=3, stored=stored),
    ]
    lanes = {"signal/beat": lane("u8", [11, 100], list(decoded))}
    return pack(blocks, alignment=64, flags=0xA2, terminated=True), twin(about, lanes, tick_hz=10.0)


def additions() -> tuple[bytes, dict[str, Any]]:
    """Pack what this project adds to the profile: "lanes", "synthesized", aux/reward, aux/truncations."""
    exact = [0.1, 1e300, -0.0]
    prediction = [float(i) for i in range(6)]
    lanes = {
        "signal/arm/state": lane("f64", [3, 2], [i / 3 for i in range(6)]),
        "omen/arm/state/dreamer": lane("f32", [3, 2], prediction),
        "uncert/arm/state/dreamer/std": lane("f16", [3], [0.25, 0.5, 1.0]),
        "aux/reward": lane("f64", [3], exact),
        "aux/truncations": lane("bool", [3], [False, False, True]),
        "time/ticks": lane("i64", [3], [0, 2**40, 2**41]),
        "time/timestamps_ns": lane("i64", [3], [10**18, 10**18 + 1, 10**18 + 2]),
    }
    about = {"episode_id": "golden-additions", "env_id": "Reach-v1", "length_T": 3}
    about |= {"chunk_index": 1, "total_chunks": 2, "timestep_range": [3, 5], "synthesized": ["done"]}
    episode = about | {"timebase": {"type": "timestamps_ns", "tick_hz": 1000, "epoch_ns": 10**18}}
    rows = [
        {"block": name, "dtype": record["dtype"], "shape": record["shape"][1:]}
        for name, record in lanes.items()
        if name.startswith(("omen/", "uncert/")) or name == "aux/reward"
    ]
    channels = {"channels": [{"id": "arm/state", "dtype": "float64", "shape": [2]}], "lanes": rows}
    blocks = [
        *meta(episode, channels, {"version": "0.1"}),
        *(Block(name, values(record["dtype"], record["values"])) for name, record in lanes.items()),
        Block("reward", values("f32", [exact[0], float("inf"), exact[2]])),
        Block("done", bytes(3)),
        Block("residual/arm/state/sign2nddiff", b"\x05\x02"),
    ]
    ordered = sorted(blocks, key=lambda block: block.name)
    more = {"tick_hz": 1000.0, "residuals": {"arm/state": "0502"}, "not_recorded": ["done"]}
    return pack(ordered, alignment=64, flags=0xA2, terminated=True), twin(about, lanes, **more)


def png(width: int, rows: list[bytes], depth: int, color: int) -> bytes:
    """Pack a PNG whose pixels are stored, not compressed."""
    raw = b"".join(b"\0" + row for row in rows)
    stored = struct.pack("<BHH", 1, len(raw), 0xFFFF - len(raw)) + raw
    parts = {
        b"IHDR": struct.pack(">IIBBBBB", width, len(rows), depth, color, 0, 0, 0),
        b"IDAT": b"\x78\x01" + stored + struct.pack(">I", zlib.adler32(raw)),
        b"IEND": b"",
    }
    chunks = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts.items()
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def images(encoded: list[bytes]) -> bytes:
    """Pack the places of images, and where the last one ends, and then the images."""
    places = [8 * (len(encoded) + 1)]
    for image in encoded:
        places.append(places[-1] + len(image))
    return struct.pack(f"<{len(places)}Q", *places) + b"".join(encoded)


def cameras() -> tuple[bytes, dict[str, Any]]:
    """Pack camera lanes as JPEG, as PNG in color and in 16 bits of gray, and as frames 1 to 3 of an MP4."""
    color = [[(t * 50 + place * 7) % 256 for place in range(24)] for t in range(3)]  # 2 x 4 pixels
    depth = [[t * 20000 + place for place in range(6)] for t in range(3)]  # 3 x 2 pixels
    film = [(x * 3 + y * 7 + t * 40) % 256 for t in range(1, 4) for y in range(16) for x in range(16)]
    colors = [png(4, [bytes(frame[row : row + 12]) for row in (0, 12)], 8, 2) for frame in color]
    depths = [png(2, [struct.pack(">2H", *frame[row : row + 2]) for row in (0, 2, 4)], 16, 0) for frame in depth]
    about = {"episode_id": "golden-cameras", "env_id": "", "length_T": 3}
    seen = {"dtype": "u8", "shape": []}
    channels = [
        {"id": "color", **seen, "encoding": "png", "frame_dtype": "u8", "frame_shape": [2, 4, 3]},
        {"id": "depth", **seen, "encoding": "png", "frame_dtype": "u16", "frame_shape": [3, 2, 1]},
        {"id": "film", **seen, "encoding": "mp4", "frame_shape": [16, 16, 1], "first_frame": 1},
        {"id": "gray", **seen, "encoding": "jpeg", "frame_shape": [16, 16, 1], "modality": "rgb"},
    ]
    blocks = [
        *meta(about | {"timebase": {"type": "ticks", "tick_hz": 10}}, {"channels": channels}, {}),
        Block("signal/color", images(colors)),
        Block("signal/depth", images(depths)),
        Block("signal/film", MP4),
        Block("signal/gray", images(JPEGS)),
        Block("time/ticks", values("i32", [0, 1, 2])),
    ]
    lanes = {
        "signal/color": lane("u8", [3, 2, 4, 3], [number for frame in color for number in frame]),
        "signal/depth": lane("u16", [3, 3, 2, 1], [number for frame in depth for number in frame]),
        "signal/film": lane("u8", [3, 16, 16, 1], film),
        "signal/gray": lane("u8", [3, 16, 16, 1], list(zlib.decompress(GRAY))),
    }
    return pack(blocks, alignment=64, flags=0xA2, terminated=True), twin(about, lanes, tick_hz=10.0)


def recording() -> tuple[bytes, dict[str, Any]]:
    """Pack the journal of a killed recording: two flushes of 2 and 1 timesteps, and a third one torn off."""

    def record(kind: bytes, payload: bytes, steps: int = 0) -> bytes:
        head = struct.pack("<4sIQ", kind, steps, len(payload))
        return head + struct.pack("<I", crc32c.crc32c(head + payload)) + payload

    def rows(first: int, count: int) -> bytes:
        ticks = range(first, first + count)
        payload = values("f32", [t + part / 2 for t in ticks for part in range(2)]) + values("i8", [-t for t in ticks])
        payload += values("f32", [t / 4 for t in ticks]) + values("bool", [False] * count)
        payload += values("i32", list(ticks)) + values("bool", [t == 1 for t in ticks])
        return record(b"ROWS", payload, count)

    about = {"episode_id": "golden-recording", "env_id": "Reach-v1", "length_T": None, "metadata": {"task": "reach"}}
    channels = [
        {"id": "state", "dtype": "f32", "shape": [2], "signal_block": "signal/state"},
        {"id": "unused", "dtype": "f32", "shape": [], "signal_block": "signal/unused"},
        {"id": "ctrl", "dtype": "i8", "shape": [], "signal_block": "action/ctrl"},
    ]
    described = meta(about | {"timebase": {"type": "ticks", "tick_hz": 50.0}}, {"channels": channels}, {})
    lanes = ["signal/state", "action/ctrl", "reward", "done", "time/ticks", "aux/truncations"]
    journal = b"WSJ1" + b"".join(record(b"DESC", block.data) for block in described)
    journal += record(b"LANE", json.dumps(lanes).encode()) + rows(0, 2) + rows(2, 1) + rows(3, 2)[:-1]
    contents = {
        "signal/state": lane("f32", [3, 2], [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]),
        "action/ctrl": lane("i8", [3], [0, -1, -2]),
        "reward": lane("f32", [3], [0.0, 0.25, 0.5]),
        "done": lane("bool", [3], [False] * 3),
        "time/ticks": lane("i32", [3], [0, 1, 2]),
        "aux/truncations": lane("bool", [3], [False, True, False]),
    }
    recovered = about | {"length_T": 3, "metadata": {"task": "reach", "recovered": True}}
    return journal, twin(recovered, contents, tick_hz=50.0)


GOLDEN = {
    "simple.wshard": simple,
    "every_dtype.wshard": every_dtype,
    "compressed.wshard": compressed,
    "frames.wshard": frames,
    "additions.wshard": additions,
    "cameras.wshard": cameras,
    "recording.journal": recording,
}


def generate(folder: Path) -> None:
    """Write all golden files and their twins."""
    for name, make in GOLDEN.items():
        data, expected = make()
        (folder / name).write_bytes(data)
        (folder / name).with_suffix(".json").write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")
    hashes = {
        "crc32c": {"hello": "0x9a71bb4c", "": "0x00000000"},
        "xxh64": {"signal/obs": "0x86f8c8413116a0ae", "meta/manifest": "0x9a191dcd325813d3"},
    }
    (folder / "golden_hashes.json").write_text(json.dumps(hashes, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    generate(Path(sys.argv[1]))
