"""The dump: operator data written in the directory layout of MindSpore's Dump.

| folder or file | holds | imports |
|---|---|---|
| `layout` | where each file lies | nothing of opscope |
| `format` | what is in each file | `layout` |
| `transport` | how values get from the training thread into files | `layout`, `format` |
| `selection` | what the user wants of which operator | `layout`, `format` |
| `sinks` | what hears the events and puts the others together | all of these |

Sessions and commands use this folder; readers use `layout` and `format` only.
"""
