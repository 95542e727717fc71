"""Control of a running training: pause, step, continue, look, change watchpoints.

`controller` decides when the training thread holds, `sink` sees the operators that are asked for,
`kept` holds their values, `verbs` are what can be asked, and `link` carries questions and answers
between a server and this process. The training thread is only ever held at points outside opscope's
locks, and nothing here costs anything per operator until somebody asks for it.
"""
