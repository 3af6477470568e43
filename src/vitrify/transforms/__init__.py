"""From one format to another, each step proven.

``conversion.convert`` is the verb; ``planner`` finds the road, ``executor`` runs it and lets the checks gate it.
The steps themselves lie in folders by what they do: ``convert`` between formats.
"""
