"""Background knowledge: a language model is asked once, and what it says shapes rewards (Zhang et al. 2024).

    potentials.py    start here: the three forms of knowledge, and what they are compared with
    windows.py, captions.py    the last steps of an episode, as arrays and in words
    programs.py, judging.py, suggesting.py    how a language model is asked for each of the three forms
    replies.py, conversation.py               what its replies say, and what it is told of the conversation so far
    sandbox.py       BK-Code: code that a language model wrote, run where it can do no harm
    gate.py, confined.py, kernel_filter.py, outcomes.py   what the sandbox is made of; adversaries.py attacks it
    preference.py    BK-Pref: a transformer that learns what a judge prefers
    goals.py         BK-Goal: suggested goals, found again for steps like those they were suggested for
    networks.py, learner.py    what the paper plays and explores with, and how it learns
    senses.py, lives.py, replay.py, survival.py    Crafter: views, test lives, pictures, a rule
    shaped.py, collect.py, dataset.py    runs on a task (method `knowledge`), and of collection (method `rnd`)

Source: spec background-knowledge. Read next: `learning/shaping.py`, what potentials do to rewards.
"""
