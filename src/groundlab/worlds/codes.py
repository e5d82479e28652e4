"""The numbers that grids are made of: MiniGrid's encoding of types, colours, door states, headings and actions.

A cell is (type, colour, state). Positions are (x, y), x to the east, y to the south, and arrays are indexed [x, y].
"""

TYPES = ("unseen", "empty", "wall", "floor", "door", "key", "ball", "box", "goal", "lava", "agent")
UNSEEN, EMPTY, WALL, FLOOR, DOOR, KEY, BALL, BOX, GOAL, LAVA, AGENT = range(len(TYPES))

COLOURS = ("red", "green", "blue", "purple", "yellow", "grey")
RED, GREEN, BLUE, PURPLE, YELLOW, GREY = range(len(COLOURS))
# MiniGrid draws colours from the alphabetical list of names.
DRAWN_COLOURS = (BLUE, GREEN, GREY, PURPLE, RED, YELLOW)

DOOR_STATES = ("open", "closed", "locked")
OPEN, CLOSED, LOCKED = range(len(DOOR_STATES))

HEADINGS = ("east", "south", "west", "north")
EAST, SOUTH, WEST, NORTH = range(len(HEADINGS))
STEP_X = (1, 0, -1, 0)
STEP_Y = (0, 1, 0, -1)

ACTIONS = ("left", "right", "forward", "pickup", "drop", "toggle", "done")
LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE, DONE = range(len(ACTIONS))
