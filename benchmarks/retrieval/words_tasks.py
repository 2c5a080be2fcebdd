"""Twenty tasks of a household robot, three paraphrases of each with few of its words, and two searches by keywords."""

from __future__ import annotations

from typing import Final

PARAPHRASES: Final = {
    "open the top drawer": [
        "pull out the upper compartment",
        "slide the highest tray towards you",
        "unclose the cabinet's first tray",
    ],
    "close the microwave door": [
        "shut the oven for reheating",
        "push the appliance shut",
        "make sure the heating box is not ajar",
    ],
    "pick up the red mug": [
        "grab the crimson cup",
        "lift the scarlet coffee cup",
        "take hold of the red drinking vessel",
    ],
    "put the apple in the bowl": [
        "place the fruit into the dish",
        "drop the piece of fruit in the container",
        "set the apple inside the basin",
    ],
    "wipe the table with the sponge": [
        "clean the surface using a scrubber",
        "scrub the desk",
        "remove dirt from the tabletop",
    ],
    "turn on the lamp": ["switch the light on", "illuminate the room", "activate the desk light"],
    "pour water into the glass": [
        "fill the tumbler",
        "tip the jug so that liquid runs into the cup",
        "serve a drink of water",
    ],
    "fold the towel": [
        "double over the cloth",
        "make the piece of fabric smaller by creasing it",
        "lay the linen neatly together",
    ],
    "stack the blue block on the green block": [
        "place the azure cube atop the other cube",
        "pile up two cubes",
        "build a tower out of the blocks",
    ],
    "press the elevator button": [
        "call the lift",
        "push the switch that summons the lift",
        "ask for the cabin to come to this floor",
    ],
    "unplug the charger": [
        "disconnect the power adapter",
        "pull the plug of the battery cable",
        "take the phone's cord out of the socket",
    ],
    "water the plant": [
        "give the flower something to drink",
        "irrigate the potted shrub",
        "moisten the soil of the houseplant",
    ],
    "cut the carrot with a knife": ["slice the vegetable", "chop the orange root", "divide the carrot into pieces"],
    "hang the coat on the hook": [
        "put the jacket on the peg",
        "suspend the garment on the wall",
        "store the jacket on the rack",
    ],
    "insert the key into the lock": [
        "put the latchkey in the keyhole",
        "get ready to unlock the entrance",
        "push the key in",
    ],
    "throw the bottle in the trash": [
        "discard the flask",
        "dispose of the empty container",
        "toss the plastic vessel into the bin",
    ],
    "stir the soup with the spoon": [
        "mix the broth",
        "blend the liquid in the pot",
        "move the ladle around in the stew",
    ],
    "tighten the screw": [
        "fasten the bolt firmly",
        "use a screwdriver to secure the fastener",
        "make the threaded fixing tight",
    ],
    "sweep the floor with the broom": ["brush the ground", "remove dust from the floor", "clean the tiles by brushing"],
    "hand the book to the person": [
        "give the novel to the human",
        "pass the volume over to somebody",
        "deliver the paperback to him",
    ],
}

KEYWORDS: Final = {
    "open the top drawer": ["drawer", "top drawer open"],
    "close the microwave door": ["microwave", "microwave door"],
    "pick up the red mug": ["mug", "red mug"],
    "put the apple in the bowl": ["apple", "apple bowl"],
    "wipe the table with the sponge": ["sponge", "wipe table"],
    "turn on the lamp": ["lamp", "lamp on"],
    "pour water into the glass": ["pour", "water glass"],
    "fold the towel": ["towel", "fold"],
    "stack the blue block on the green block": ["stack", "blue green block"],
    "press the elevator button": ["elevator", "press button"],
    "unplug the charger": ["charger", "unplug"],
    "water the plant": ["plant", "water plant"],
    "cut the carrot with a knife": ["carrot", "cut knife"],
    "hang the coat on the hook": ["coat", "hook"],
    "insert the key into the lock": ["key", "key lock"],
    "throw the bottle in the trash": ["bottle", "trash"],
    "stir the soup with the spoon": ["soup", "stir spoon"],
    "tighten the screw": ["screw", "tighten"],
    "sweep the floor with the broom": ["broom", "sweep floor"],
    "hand the book to the person": ["book", "book person"],
}
