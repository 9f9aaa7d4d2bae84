<?php
namespace App\Controller;

use App\Form\ContactType;
use App\Repository\MessageRepository;
use Symfony\Bundle\FrameworkBundle\Controller\AbstractController;
use Symfony\Component\HttpFoundation\{Request, Response};
use Symfony\Component\Routing\Annotation\Route;

final class FormController extends AbstractController
{
    #[Route('/contact', name: 'contact', methods: ['GET', 'POST'])]
    public function contact(Request $r, MessageRepository $messages): Response
    {
        $form = $this->createForm(ContactType::class)->handleRequest($r);
        if ($form->isSubmitted() && $form->isValid()) {
            $messages->add($form->getData());
            $this->addFlash('notice', 'Your message is kept');
            return $this->redirectToRoute('messages', [], Response::HTTP_SEE_OTHER);
        }
        return $this->renderForm('page/contact.html.twig', ['form' => $form]);
    }

    #[Route('/contact/messages', name: 'messages', methods: ['GET'])]
    public function messages(MessageRepository $messages): Response { return $this->render('page/simple.html.twig', ['title' => 'Messages', 'rows' => $messages->all()]); }

    #[Route('/post/{id}/comment', name: 'post_discuss', requirements: ['id' => '\d+'], methods: ['GET'])]
    public function discuss(int $id): Response { return $this->render('page/comment.html.twig', ['id' => $id]); }
}
