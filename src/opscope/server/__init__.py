"""The HTTP API over recordings and connected trainings, and the page.

Routes only translate between HTTP and `opscope.views`; `library` knows which recordings there are,
`security` decides who may ask. The training process never imports this package.
"""
