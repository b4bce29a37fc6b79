"""Applications that a user of trimtab might write, and streams to run them on.

`first_story` detects first stories among tweets, the application of Zacheilas et al. (2016); `tweets` makes the tweets.
"""
