"""Text in, numbers or text out. So far: chat clients, the one interface through which advice is asked for.

Start at `chat.py`.
"""
